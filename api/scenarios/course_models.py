"""JSON models of courses: how likely a loss was over the time of a stored run."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from zabka.api.views.models import Body

FUTURES, MOMENTS = 8, 12


class NewOutcomeCourse(Body):
    """How many futures to play, from how many moments; every field is optional."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"futures": 8, "moments": 12}})

    futures: int = Field(default=FUTURES, ge=1, le=50, description="Futures of each moment")
    moments: int = Field(
        default=MOMENTS, ge=1, le=40, description="Moments from the start to the first loss, or to the end"
    )


class CoursePoint(BaseModel):
    """A moment of a run, and the futures that begin at it."""

    at_us: int
    losing: int = Field(description="Number of futures that lose acknowledged records")
    low: float = Field(description="95 % confidence interval of their share")
    high: float
    writable_us: int | None = Field(description="Median time until all partitions are writable; null for never")


class CoursePlot(BaseModel):
    """The points that have been played.  `at_us`, `loss_us` and `certain_us` are on the clock of `wall_us`."""

    futures: int = Field(description="Number of futures of each moment")
    moments: int = Field(description="Number of moments in total")
    points: list[CoursePoint]
    loss_us: int | None = Field(description="The run's first loss of committed records; null if there is none")
    certain_us: int | None = Field(
        description="Moment from which on all futures lose records; null if there is none, or before the last moment"
    )

    def since(self, begins_us: int) -> CoursePlot:
        """Return the plot with the times of a world that begins at `begins_us`."""

        def moved(at_us: int | None) -> int | None:
            return None if at_us is None else at_us + begins_us

        points = [each.model_copy(update={"at_us": moved(each.at_us)}) for each in self.points]
        times = {"loss_us": moved(self.loss_us), "certain_us": moved(self.certain_us)}
        return self.model_copy(update={"points": points, **times})


class OutcomeCourse(BaseModel):
    """How likely a loss was over the time of a run."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "run": "r1a2b3c4d", "state": "ended", "error": None,
        "plot": {
            "futures": 8, "moments": 2, "loss_us": 1700000008000000, "certain_us": 1700000004000000,
            "points": [
                {"at_us": 1700000000000000, "losing": 1, "low": 0.02, "high": 0.47, "writable_us": 9100000},
                {"at_us": 1700000004000000, "losing": 8, "low": 0.68, "high": 1, "writable_us": 5200000},
            ],
        },
    }})  # fmt: skip

    run: str
    state: Literal["running", "ended"]
    plot: CoursePlot | None = Field(default=None, description="Null until the run itself has been played again")
    error: str | None = Field(default=None, description="Why it is not complete")
