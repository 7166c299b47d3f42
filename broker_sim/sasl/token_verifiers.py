"""Selects how the tokens of a listener are verified. The modules for signed tokens are imported only when needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.oauth_keys import SignedTokenKeys, TokenKeys, UnsecuredTokenKeys
from zabka.broker_sim.sasl.key_endpoint import KeyEndpoint
from zabka.broker_sim.sasl.retries import Unavailable
from zabka.broker_sim.sasl.tokens import Verify
from zabka.broker_sim.sasl.unsecured_tokens import UnsecuredTokens
from zabka.ensemble.ports import Runtime
from zabka.ensemble.runtime.extras import Lacking, require

if TYPE_CHECKING:
    from zabka.broker_sim.sasl.signed_tokens import VerificationKey


async def token_verifier(
    keys: TokenKeys, listener: str, runtime: Runtime, log_problem: Callable[[str], object]
) -> Verify:
    """Return the function that verifies the tokens of a listener.

    It first reads the issuer's keys, and raises ConfigError if that fails, as Kafka's brokers do.
    """

    def wall_ms() -> int:
        return runtime.now().wall_ms

    if isinstance(keys, UnsecuredTokenKeys):
        return UnsecuredTokens(keys, wall_ms).verify
    try:
        return await _signed(keys, runtime, log_problem, wall_ms)
    except (Lacking, Unavailable, ConfigError) as wrong:
        raise ConfigError(f"listener {listener}: {wrong}") from None


async def _signed(
    keys: SignedTokenKeys, runtime: Runtime, log_problem: Callable[[str], object], wall_ms: Callable[[], int]
) -> Verify:
    require("oauth", "the package that verifies signed tokens is")
    from zabka.broker_sim.sasl.key_download import KeyDownload
    from zabka.broker_sim.sasl.signed_tokens import BadKeySet, SignedTokens, parse_key_set

    download = KeyDownload(keys)

    async def load() -> Sequence[VerificationKey]:
        try:
            return parse_key_set(await download.read())
        except BadKeySet as bad:
            raise Unavailable(str(bad), is_final=bool(keys.file)) from None

    endpoint = KeyEndpoint(keys, load, runtime, log_problem)
    await endpoint.start()
    return SignedTokens(keys, endpoint.known, endpoint.missing, wall_ms).verify
