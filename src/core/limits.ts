/**
 * Every limit of the product, with its unit in the name and its reason beside it. How limits relate is asserted at the end,
 * when the module is loaded, so that a change that breaks a relation cannot start.
 */
export const LIMITS = {
  // Jobs and requests.
  /** UTF-8 bytes of a job key: it is a Kafka key, part of a Redis record and of a URL. */
  jobKeyBytes: 255,
  /**
   * UTF-8 bytes of a payload as it stands in a job record, with its quotes and backslashes escaped: well below Kafka's default
   * max.message.bytes of 1,048,588 with headers and batch overhead.
   */
  payloadBytes: 256 * 1024,
  /** Bytes of an encoded job record: payload, schedule and the calendars in use. A fast-path message holds two, in base64. */
  recordBytes: 360 * 1024,
  /** Bytes of one request body that is not a stream (and of one line of a stream). */
  bodyBytes: 1024 * 1024,
  /** Nested arrays and objects in a request: parsers of others recurse, so deeper input is refused. */
  jsonDepth: 64,
  /** Jobs of a JSON array that is answered line by line. */
  bulkArrayItems: 1_000,
  /** Errors of a bulk operation that are kept line by line; beyond, they are only counted. */
  operationErrors: 1_000,
  /** Jobs on one page of a list. */
  pageItems: 1_000,
  previewCount: 1_000,
  clusterNameBytes: 63,
  /** Bytes of a JSON array of jobs: all of its text is in memory at once. */
  bulkArrayBytes: 8 * 1024 * 1024,
  /** UTF-8 bytes of a job's description, of a label's name and of its value; labels of one job. */
  descriptionBytes: 1_024,
  labelNameBytes: 63,
  labelValueBytes: 255,
  labelsPerJob: 32,
  contentTypeBytes: 127,
  /** Characters of an idempotency key and of the request key in the execution id of a run by hand. */
  requestKeyChars: 64,
  clusters: 1_000,
  calendarsPerJob: 8,
  // Schedules.
  /** Least and greatest period of a fixed rate, in ms: 100 ms and 10 years of 366 days. */
  ratePeriodMinMs: 100,
  ratePeriodMaxMs: 10 * 366 * 86_400_000,
  /** Greatest time that a schedule may name: 9999-12-31T23:59:59.999Z, the end of RFC 3339. */
  timeMaxMs: 253_402_300_799_999,
  /** Characters of a cron expression: a list of all sixty minutes has 169. */
  cronExpressionChars: 512,
  /** Greatest width of a spread window, in ms: one day. */
  spreadMaxMs: 86_400_000,
  /** Entries of each list of an exclusion calendar. */
  calendarEntries: 1_000,
  /** Occurrences in a row that calendars may exclude: beyond, the schedule is taken to have no more. */
  excludedInARow: 10_000,
  /** How far a maximum count may reach under exclusion calendars, in years: days are looked at one by one there. */
  excludedCountYears: 200,
  /** Greatest maximum count: it becomes an end time by counting. */
  maxCount: 1_000_000,
  // Shards and wheels.
  /** Jobs of one shard: one ZSET, one scan, one page of memory. */
  shardJobs: 10_000,
  /** Triggers per second of one shard; beyond, it takes no more jobs. Twice what 10,000 jobs every second make. */
  shardTriggersPerSecond: 20_000,
  /** Bits of a job number and of a version inside a ZSET member; together below 2^53. */
  jobNumberBits: 36,
  memberVersionBits: 16,
  /** A scan reaches this far ahead, in ms, and starts again when less than `scanAheadMinMs` is left. */
  scanAheadMs: 16_000,
  /** Redis may fail over in 10 s: the horizon must reach past that. */
  scanAheadMinMs: 11_000,
  /** Width of a wheel's finest bucket, in ms: no trigger is late by more than this through the wheel itself. */
  wheelTickMs: 1,
  /** Unpublished for longer than this is a misfire, in ms. */
  misfireAfterMs: 10_000,
  /** Triggers of one batch that goes to the bus: bounds one request's memory. */
  publishBatchTriggers: 5_000,
  /** Bytes of triggers in one such batch: large payloads fill it before their number does. */
  publishBatchBytes: 8 * 1024 * 1024,
  /**
   * An exactly-once commit takes whole ticks, so it may become this many times as large: a tick that is larger still is parted,
   * and what waits gets cursors.
   */
  commitBatches: 20,
  /** Occurrences of one job in one batch: a job that catches up leaves room for the others. */
  publishBatchOccurrences: 100,
  /** Batches that a slot may have on the way; beyond, the wheel waits. */
  publishBatchesInFlight: 4,
  /**
   * Transactions per second that a worker begins for its exactly-once slots; beyond, they wait and become larger. One over 8
   * partitions costs the broker about 1.5 ms of CPU. With 700 instead, (m) 10,000 triggers/s were no less late (p99 30 to 37 ms).
   */
  commitsPerSecond: 400,
  /** Members of one write-back. */
  writeBackMembers: 500,
  /** A write-back waits this long for others, in ms: a call a shard, however few its members. */
  writeBackAgeMs: 200,
  /** The score of a job that stays in a wheel is written again after this long, in ms: an older one is an alarm. */
  scoreRefreshMs: 300_000,
  /** Finished members of a shard that the recorder asks the trigger store for at a time. */
  recorderMembers: 2_000,
  /**
   * Finished jobs of all shards of a slot that the recorder takes at a time. A slot waits for each call, and a majority may take
   * 100 ms or more beside other work: 8 slots with 2,000 recorded 49,000/s while a third of the machine was idle (m).
   */
  recordedJobs: 10_000,
  /**
   * Finished jobs of one shard that wait in memory for the recorder; beyond, their scores are written, and the trigger store keeps
   * them. Four seconds of 60,000 one-shots a second over 125 shards.
   */
  endedMembers: 2_000,
  /**
   * Progress is committed this often under load, and this often while nothing fires, in ms. A transaction costs the broker
   * about 1.5 ms of CPU, and what was published since the last one may come again after a crash: 200 ms at most, the commit
   * itself included.
   */
  progressEveryMs: 150,
  progressIdleMs: 1_000,
  /** The same for a slot without shards, in ms: nobody asks for its T. */
  progressEmptyMs: 5_000,
  /** A topic that does not exist is looked for this often, in ms. */
  missingTopicRetryMs: 1_000,
  /** A message about a change may come this long after the scan that found the change, in ms: the applier was restarted. */
  lateChangeMs: 600_000,
  /** Jobs that have left a wheel and whose message may come late; beyond, the oldest half of them is forgotten. */
  leftEntries: 10_000,
  /** Changes that may wait for triggers on the way; beyond, the fast path is not read. */
  deferredChanges: 1_000,
  /** Answers to changes that may wait to be sent; beyond, the oldest are dropped, and who asked gets none. */
  ownerAnswers: 10_000,
  // Leases.
  /** A worker renews its session this often, in ms. */
  sessionRenewMs: 500,
  /** A manager takes a session for dead when it saw no beat for this long by its own monotonic clock, in ms. */
  sessionDeadMs: 2_000,
  /** A worker trusts itself for this long after the start of its last successful renewal, in ms. */
  sessionTrustMs: 1_500,
  /** Clock difference against the store's clock that is refused at start, in ms. */
  clockSkewMs: 500,
  // Answers.
  /** A single write waits this long for the applier's answer, in ms; then 202. */
  answerWaitMs: 5_000,
  /** A single write waits this long for the owner's answer after the applier's, in ms. */
  ownerAnswerWaitMs: 100,
  // Streams of triggers over HTTP.
  /** Open streams of one API process: each has connections and, with a group, a place among its members. */
  triggerStreams: 100,
  /** Triggers that are with the client of one stream and not committed: bounds what a broken connection repeats. */
  streamUncommitted: 5_000,
  /** A client gets this long to end what it works on of a partition that another member gets, in ms. */
  streamReleaseMs: 10_000,
} as const;

function assertRelation(holds: boolean, rule: string): void {
  if (!holds) throw new Error(`limits.ts: ${rule}`);
}

assertRelation(LIMITS.jobNumberBits + LIMITS.memberVersionBits < 53, 'a member is a plain number');
assertRelation(LIMITS.scanAheadMinMs < LIMITS.scanAheadMs, 'a scan starts before the horizon is used up');
assertRelation(LIMITS.scanAheadMinMs > 10_000, 'the horizon reaches past a Redis failover of 10 s');
assertRelation(
  LIMITS.sessionTrustMs < LIMITS.sessionDeadMs,
  'a worker stops trusting itself before it is declared dead',
);
assertRelation(LIMITS.sessionRenewMs * 2 < LIMITS.sessionTrustMs, 'one lost renewal costs no trust');
assertRelation((LIMITS.recordBytes * 4 * 2) / 3 + 4_096 < 1_000_000, 'a fast-path message fits into a batch of Kafka');
assertRelation(LIMITS.payloadBytes < LIMITS.recordBytes, 'the largest payload fits into a record');
assertRelation(LIMITS.payloadBytes < LIMITS.bodyBytes, 'the largest payload fits into a request');
