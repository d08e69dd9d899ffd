/**
 * Every metric of Carillon but lateness: what stands at `/metrics` as `carillon_NAME`. A test holds this table and the
 * names used in the code together; a name that is not here still counts, with its name for help.
 */
export interface MetricDefinition {
  type: 'counter' | 'gauge';
  help: string;
}

export const METRICS: Readonly<Record<string, MetricDefinition>> = {
  // Loops of all processes.
  loop_errors_total: { type: 'counter', help: 'Rounds of a loop that failed; the loop goes on' },
  telemetry_dropped_total: { type: 'counter', help: 'Events, series and samples beyond a bound of telemetry itself' },
  // Manager: sessions, leases, shards.
  manager_leading: { type: 'gauge', help: '1 while this manager leads, else 0' },
  sessions: { type: 'gauge', help: 'Living sessions by role, as the leading manager sees them' },
  sessions_died_total: { type: 'counter', help: 'Sessions declared dead' },
  deaths_withheld_total: { type: 'counter', help: 'Times that too many sessions stood still at once to be dead' },
  slots: { type: 'gauge', help: 'Slots by delivery and state (owned, free, releasing)' },
  slots_assigned_total: { type: 'counter', help: 'Assignments of slots to workers' },
  slots_asked_total: { type: 'counter', help: 'Requests to workers by what was asked (release, keep)' },
  fence_failures_total: { type: 'counter', help: 'Slots of a dead owner that could not be fenced in time' },
  shards: { type: 'gauge', help: 'Shards by delivery and state' },
  shards_created_total: { type: 'counter', help: 'Shards made ahead of need' },
  shard_places_mended_total: { type: 'counter', help: 'Places counted in draining shards that no job had' },
  shard_places: { type: 'gauge', help: 'Places of open, unsaturated shards by delivery' },
  shard_places_free: { type: 'gauge', help: 'Free places of open, unsaturated shards by delivery' },
  jobs_moving: { type: 'gauge', help: 'Jobs that are under way from one shard to another; at most 1000' },
  move_steps_total: { type: 'counter', help: 'Steps of moves asked for, by step (begin, go, end, cancel)' },
  move_failures_total: { type: 'counter', help: 'Batches of steps of moves that could not be sent, by code' },
  // Management: changes on their way in.
  api_problems_total: { type: 'counter', help: 'Requests answered with a problem, by code' },
  bulk_uploads: { type: 'gauge', help: 'Bulk uploads that are being received; at most 16' },
  changes_refused_total: { type: 'counter', help: 'Changes refused because the queue to the topic was full' },
  changes_queue_depth: { type: 'gauge', help: 'Changes that wait to be sent to the topic' },
  changes_queue_bound: { type: 'gauge', help: 'Bound of the changes that wait to be sent' },
  changes_send_errors_total: { type: 'counter', help: 'Batches of changes that could not be sent to the topic' },
  // Applier.
  changes_applied_total: { type: 'counter', help: 'Changes applied, by result or code of refusal' },
  changes_unreadable_total: { type: 'counter', help: 'Records of the changes topic of an unknown form, passed over' },
  applier_batches_waiting: {
    type: 'gauge',
    help: 'Batches of changes that wait for a round of the applier, at most one for each partition',
  },
  applier_repeats_total: {
    type: 'counter',
    help: 'Times that stored changes were applied again, since they were not committed',
  },
  applier_partitions: { type: 'gauge', help: 'Partitions of the changes topic that this applier works on' },
  // Worker, by slot.
  triggers_total: { type: 'counter', help: 'Triggers by slot and result (published, dropped and why)' },
  misfires_total: { type: 'counter', help: 'Occurrences beyond misfireAfter by slot and result (fired, dropped)' },
  clock_jumps_total: {
    type: 'counter',
    help: 'Jumps of the wall clock that were believed, or held against, by result',
  },
  wheel_lag_ms: { type: 'gauge', help: 'How far the wheel of a slot is behind its clock, in ms' },
  wheel_entries: { type: 'gauge', help: 'Jobs in the wheel of a slot' },
  progress_t_ms: { type: 'gauge', help: 'Tick T of a slot: all up to it is published or owed, UTC ms' },
  queue_depth: { type: 'gauge', help: 'Depth of a queue of a slot' },
  queue_bound: { type: 'gauge', help: 'Bound of a queue of a slot' },
  fast_messages_total: { type: 'counter', help: 'Messages of the fast path by slot and result' },
  answers_dropped_total: { type: 'counter', help: 'Answers of an owner that did not fit into their queue' },
  cursors_opened_total: { type: 'counter', help: 'Cursors opened by slot and reason' },
  takeovers_failed_total: { type: 'counter', help: 'Takeovers of slots that failed; they are tried again' },
  sessions_lost_total: { type: 'counter', help: 'Sessions of this worker that ended before their time' },
  wheels_died_total: { type: 'counter', help: 'Wheel threads that died' },
  write_backs_total: { type: 'counter', help: 'Scores written back to the trigger store' },
  write_backs_missing_total: { type: 'counter', help: 'Write-backs whose member was gone or of another version' },
  publish_failures_total: { type: 'counter', help: 'Batches of triggers that could not be published, by code' },
  topics_missing_total: { type: 'counter', help: 'Batches whose topic did not exist; the triggers are owed' },
  partitions_unled_total: {
    type: 'counter',
    help: 'Batches with a partition that had no leader; the triggers are owed',
  },
  jobs_failed_total: { type: 'counter', help: 'Jobs put into the error state' },
  jobs_finished_total: { type: 'counter', help: 'Jobs recorded as finished' },
  horizons_moved_total: { type: 'counter', help: 'Horizons found where their owner had not left them' },
  shards_lost_total: { type: 'counter', help: 'Shards of which the trigger store did not have everything, by reason' },
  shards_rebuilt_total: { type: 'counter', help: 'Shards rebuilt from the job store, progress and the wheel' },
  jobs_compared_total: { type: 'counter', help: 'Jobs compared between the job store and the trigger store' },
  drift_total: {
    type: 'counter',
    help: 'Jobs that the trigger store lacked or had too many, by kind (lacking, surplus)',
  },
  changes_untold_total: { type: 'counter', help: 'Changes found in the job store that nobody had told the owner of' },
  takeovers_total: { type: 'counter', help: 'Takeovers of a slot' },
  slots_lost_total: { type: 'counter', help: 'Slots that a worker lost to another owner' },
  // Bus and stores.
  group_errors_total: { type: 'counter', help: 'Errors of a consumer group member, by group and step' },
  group_handler_errors_total: { type: 'counter', help: 'Batches of a group that its handler failed on and gets again' },
  bus_unread_removed_total: {
    type: 'counter',
    help: 'Records removed by the bound in bytes before their group had read them',
  },
  kafka_producer_records: { type: 'gauge', help: 'Records handed to the producer and not answered yet' },
  kafka_producer_records_max: { type: 'gauge', help: 'Bound of the records handed to the producer' },
  mongodb_calls_in_flight: { type: 'gauge', help: 'Calls to MongoDB that are not answered yet' },
  mongodb_calls_refused_total: { type: 'counter', help: 'Calls refused because too many were in flight' },
  mongodb_errors_total: { type: 'counter', help: 'Calls to MongoDB that failed, by call and code' },
  redis_connections_total: { type: 'counter', help: 'Connections to Redis made, first and again' },
  redis_connection_errors_total: { type: 'counter', help: 'Errors of a connection to Redis' },
  signals_lost_total: {
    type: 'counter',
    help: 'Hints to other processes that were not sent: they look by themselves later',
  },
  redis_calls_in_flight: { type: 'gauge', help: 'Calls to Redis that are not answered yet' },
  redis_calls_refused_total: { type: 'counter', help: 'Calls refused because too many were in flight' },
  redis_errors_total: { type: 'counter', help: 'Calls to Redis that failed, by command and code' },
};
