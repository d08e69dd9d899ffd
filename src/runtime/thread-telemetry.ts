import type { MessagePort, Worker } from 'node:worker_threads';
import type { Clock } from '../ports/clock.ts';
import type { Labels, Telemetry } from '../ports/telemetry.ts';
import { type LatenessLabels, LatenessTable } from './lateness.ts';

/**
 * Telemetry of a thread: counted here, sent to the main thread as sums, so that a trigger costs no message. Events go at
 * once, since a thread that dies has no next time. The bounds hold per interval; beyond them things are counted as dropped.
 */
const INTERVAL_MS = 250;
const SERIES_PER_INTERVAL = 10_000;
const EVENTS_PER_INTERVAL = 1_000;

type EventLevel = Parameters<Telemetry['event']>[0];

interface Sample {
  name: string;
  labels: Labels;
  value: number;
}

type TelemetryMessage =
  | { telemetry: 'event'; level: EventLevel; message: string; fields: Record<string, unknown> }
  | {
      telemetry: 'sums';
      counts: Sample[];
      gauges: Sample[];
      /** Mean lateness and number of triggers of one bucket: the mean lies in the bucket that it came from. */
      lateness: { labels: LatenessLabels; ms: number; n: number }[];
    };

export interface ThreadTelemetry extends Telemetry {
  /** Sends what is counted now. */
  flush(): void;
  /** Sends the rest and ends. */
  close(): void;
}

type Port = Pick<MessagePort | Worker, 'postMessage'>;

export function threadTelemetry(port: Port, clock: Clock): ThreadTelemetry {
  const counts = new Map<string, Sample>();
  const gauges = new Map<string, Sample>();
  const lateness = new LatenessTable();
  let events = 0;
  let dropped = 0;

  const sampleOf = (samples: Map<string, Sample>, name: string, labels: Labels): Sample | null => {
    const key = `${name}${JSON.stringify(labels)}`;
    let sample = samples.get(key);
    if (sample !== undefined) return sample;
    if (samples.size >= SERIES_PER_INTERVAL) {
      dropped += 1;
      return null;
    }
    sample = { name, labels, value: 0 };
    samples.set(key, sample);
    return sample;
  };
  const post = (message: TelemetryMessage): void => port.postMessage(message);
  const flush = (): void => {
    if (dropped > 0) counts.set('', { name: 'telemetry_dropped_total', labels: { what: 'thread' }, value: dropped });
    const late = lateness
      .series()
      .flatMap(({ labels, counts: numbers, sumsMs }) =>
        Array.from(numbers, (n, bucket) => ({ labels, ms: sumsMs[bucket]! / n, n })).filter(({ n }) => n > 0),
      );
    if (counts.size + gauges.size + late.length > 0) {
      post({ telemetry: 'sums', counts: [...counts.values()], gauges: [...gauges.values()], lateness: late });
    }
    counts.clear();
    gauges.clear();
    lateness.clear();
    events = 0;
    dropped = 0;
  };
  let cancel = (): void => {};
  const again = (): void => {
    cancel = clock.after(INTERVAL_MS, () => {
      flush();
      again();
    });
  };
  again();
  return {
    count(name, labels = {}, by = 1) {
      const sample = sampleOf(counts, name, labels);
      if (sample !== null) sample.value += by;
    },
    gauge(name, value, labels = {}) {
      const sample = sampleOf(gauges, name, labels);
      if (sample !== null) sample.value = value;
    },
    lateness: (ms, n, labels) => lateness.record(ms, n, labels),
    event(level, message, fields = {}) {
      events += 1;
      if (events > EVENTS_PER_INTERVAL) dropped += 1;
      else post({ telemetry: 'event', level, message, fields: plain(fields) });
    },
    flush,
    close() {
      cancel();
      flush();
    },
  };
}

/**
 * Takes what `threadTelemetry` sent into the telemetry of the main thread. The port carries other messages as well: true
 * means that this one was telemetry and is done with.
 */
export function receiveTelemetry(message: unknown, telemetry: Telemetry): boolean {
  if (typeof message !== 'object' || message === null || !('telemetry' in message)) return false;
  const received = message as TelemetryMessage;
  if (received.telemetry === 'event') {
    telemetry.event(received.level, received.message, received.fields);
    return true;
  }
  for (const { name, labels, value } of received.counts) telemetry.count(name, labels, value);
  for (const { name, labels, value } of received.gauges) telemetry.gauge(name, value, labels);
  for (const { labels, ms, n } of received.lateness) telemetry.lateness(ms, n, labels);
  return true;
}

/** What a message can carry: functions and the like would make `postMessage` throw. */
function plain(fields: Record<string, unknown>): Record<string, unknown> {
  const carried = (_: string, value: unknown): unknown =>
    typeof value === 'bigint' || value instanceof Error ? String(value) : value;
  try {
    return JSON.parse(JSON.stringify(fields, carried));
  } catch (error) {
    return { fieldsLost: String(error) };
  }
}
