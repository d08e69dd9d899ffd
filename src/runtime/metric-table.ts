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
  shard_places: { type: 'gauge', help: 'Places of open, unsaturated shards by delivery' },
  shard_places_free: { type: 'gauge', help: 'Free places of open, unsaturated shards by delivery' },
};
