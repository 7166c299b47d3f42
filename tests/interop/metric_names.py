"""Metrics of ZooKeeper 3.9.5 that our servers do not have, each with the reason."""

from __future__ import annotations

import re

_PIPELINE = "requests do not wait in a CommitProcessor: a session's own queue is answered in the turn of the commit"
_PREPARED = "a leader makes transactions in the turn in which the requests came: there is no queue, nor time, before"
_PER_REQUEST = "it would cost each request something; readlatency, updatelatency and packets are counted by the batch"
_WATCHES = "watches of a closed connection go with it, at once: there is no cleaner that could lag behind"
_CACHE = "answers are kept ready as bytes; to count who is served from them would cost each read more than serving it"
_LEARNERS = "packets go to a learner's socket in the turn that made them: there is no queue of ours"
_MASTER = "an observer master passes on what it logs and commits in that very turn"

ABSENT = {
    "add_dead_watcher_stall_time": _WATCHES,
    "close_session_prep_time": _PREPARED,
    "commit_commit_proc_req_queued": _PIPELINE,
    "commit_process_time": _PIPELINE,
    "concurrent_request_processing_in_commit_processor": _PIPELINE,
    "dead_watchers_cleaner_latency": _WATCHES,
    "dead_watchers_cleared": _WATCHES,
    "dead_watchers_queued": _WATCHES,
    "inflight_diff_count": "a leader sends a DIFF in one turn; learners less synced_… says how many are not done yet",
    "inflight_snap_count": "see inflight_diff_count",
    "jvm_pause_time_ms": "there is no JVM",
    "last_client_response_size": _PER_REQUEST,
    "learner_handler_qp_size": _LEARNERS,
    "learner_handler_qp_time_ms": _LEARNERS,
    "learner_request_processor_queue_size": "what a learner's clients ask for goes to the leader in the same turn",
    "local_write_committed_time_ms": "updatelatency: there is no stage behind the commit that could take time",
    "max_client_response_size": _PER_REQUEST,
    "min_client_response_size": _PER_REQUEST,
    "netty_queued_buffer_capacity": "there is no netty",
    "om_commit_process_time_ms": _MASTER,
    "om_proposal_process_time_ms": _MASTER,
    "outstanding_changes_queued": _PREPARED,
    "outstanding_changes_removed": _PREPARED,
    "pending_session_queue_size": _PIPELINE,
    "prep_process_time": _PREPARED,
    "prep_processor_queue_size": _PREPARED,
    "prep_processor_queue_time_ms": _PREPARED,
    "prep_processor_request_queued": _PREPARED,
    "proposal_process_time": _PREPARED,
    "read_commit_proc_issued": _PIPELINE,
    "read_commit_proc_req_queued": _PIPELINE,
    "read_commitproc_time_ms": _PIPELINE,
    "read_final_proc_time_ms": _PIPELINE,
    "read_per_namespace": _PER_REQUEST,
    "reads_after_write_in_session_queue": _PIPELINE,
    "reads_issued_from_session_queue": _PIPELINE,
    "request_commit_queued": _PIPELINE,
    "requests_in_session_queue": _PIPELINE,
    "requests_not_forwarded_to_commit_processor": _PIPELINE,
    "response_packet_cache_hits": _CACHE,
    "response_packet_cache_misses": _CACHE,
    "response_packet_get_children_cache_hits": _CACHE,
    "response_packet_get_children_cache_misses": _CACHE,
    "restore_time": "a server begins anew from what it restored, and counts from there",
    "server_write_committed_time_ms": "propagation_latency: there is no stage behind the commit that could take time",
    "session_queues_drained": _PIPELINE,
    "skip_learner_request_to_next_processor_count": _PIPELINE,
    "socket_closing_time": "closing a socket waits for nothing here",
    "time_waiting_empty_pool_in_commit_processor_read_ms": _PIPELINE,
    "write_batch_time_in_commit_processor": _PIPELINE,
    "write_commit_proc_issued": _PIPELINE,
    "write_commit_proc_req_queued": _PIPELINE,
    "write_commitproc_time_ms": _PIPELINE,
    "write_final_proc_time_ms": _PIPELINE,
    "write_per_namespace": _PER_REQUEST,
}
_OF_SUMMARY = re.compile(r"(avg|min|max|cnt|sum|p50|p95|p99|p999)_(.+)")
_KEYED = re.compile(r".+_((?:read|write)_per_namespace)|\d+_(learner_handler_qp_.+)")


def metrics_of(mntr: str) -> set[str]:
    """Return the names of the metrics in a reply to `mntr`.

    The five to nine lines of one summary count as one name.
    """
    rows = {line.partition("\t")[0].removeprefix("zk_") for line in mntr.splitlines()}
    found = set()
    for row in rows:
        part = _OF_SUMMARY.fullmatch(row)
        name = part[2] if part and f"cnt_{part[2]}" in rows else row
        keyed = _KEYED.fullmatch(name)
        found.add(keyed[1] or keyed[2] if keyed else name)
    return found
