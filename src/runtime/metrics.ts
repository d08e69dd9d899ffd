import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Labels, Telemetry } from '../ports/telemetry.ts';
import { LATENESS_BOUNDS_MS, LatenessTable } from './lateness.ts';
import type { Log } from './log.ts';
import { METRICS } from './metric-table.ts';

const PREFIX = 'carillon_';

export interface Metrics {
  telemetry: Telemetry;
  /** Everything in Prometheus' text form. */
  text(): Promise<string>;
  contentType: string;
}

/** Telemetry of a process: counters, gauges and lateness in a Prometheus registry of its own, events in its log. */
export function createMetrics(log: Log): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const lateness = new LatenessTable();
  registry.registerMetric(new LatenessHistogram(lateness));
  const counters = new Map<string, Counter>();
  const gauges = new Map<string, Gauge>();

  const made = (type: 'counter' | 'gauge', name: string, labels: Labels) => ({
    name: PREFIX + name,
    help: METRICS[name]?.help ?? name,
    labelNames: Object.keys(labels),
    registers: [registry],
    type,
  });
  /** A sample that the registry refuses (other labels than before, no number) must not stop who measures. */
  const guarded = (name: string, sample: () => void): void => {
    try {
      sample();
    } catch (error) {
      if (name === DROPPED) return;
      telemetry.count(DROPPED, { what: 'sample' });
      log.debug({ metric: name, error: String(error) }, 'a sample was refused');
    }
  };
  const telemetry: Telemetry = {
    count(name, labels = {}, by = 1) {
      guarded(name, () => {
        let counter = counters.get(name);
        if (counter === undefined) {
          counter = new Counter(made('counter', name, labels));
          counters.set(name, counter);
        }
        counter.inc(labels, by);
      });
    },
    gauge(name, value, labels = {}) {
      guarded(name, () => {
        let gauge = gauges.get(name);
        if (gauge === undefined) {
          gauge = new Gauge(made('gauge', name, labels));
          gauges.set(name, gauge);
        }
        gauge.set(labels, value);
      });
    },
    lateness(ms, n, labels) {
      lateness.record(ms, n, labels);
    },
    event(level, message, fields = {}) {
      log[level](fields, message);
    },
  };
  return { telemetry, text: () => registry.metrics(), contentType: registry.contentType };
}

const DROPPED = 'telemetry_dropped_total';

/** prom-client's histogram takes one observation at a time; this one answers from the table, when somebody asks. */
class LatenessHistogram extends Histogram<'cluster' | 'slot'> {
  readonly #table: LatenessTable;
  static readonly NAME = `${PREFIX}trigger_lateness_milliseconds`;
  static readonly HELP = 'Time of publishing minus effective time of triggers, by logical cluster and slot';

  constructor(table: LatenessTable) {
    super({
      name: LatenessHistogram.NAME,
      help: LatenessHistogram.HELP,
      labelNames: ['cluster', 'slot'],
      buckets: [...LATENESS_BOUNDS_MS],
      registers: [],
    });
    this.#table = table;
  }

  override async get(): ReturnType<Histogram<'cluster' | 'slot'>['get']> {
    const values = this.#table.series().flatMap(({ labels, counts, sumsMs }) => {
      const line = (suffix: string, value: number, more: { le?: number | string } = {}) => ({
        metricName: LatenessHistogram.NAME + suffix,
        labels: { ...more, ...labels },
        value,
      });
      let total = 0;
      const buckets = Array.from(counts, (count, bucket) => {
        total += count;
        return line('_bucket', total, { le: LATENESS_BOUNDS_MS[bucket] ?? '+Inf' });
      });
      const sum = sumsMs.reduce((a, b) => a + b, 0);
      return [...buckets, line('_sum', sum), line('_count', total)];
    });
    const { NAME: name, HELP: help } = LatenessHistogram;
    // The type is an enum in the declarations only; at run time it is this word.
    return { name, help, type: 'histogram' as never, aggregator: 'sum', collect() {}, values };
  }

  /** The registry asks for this form where it exists. */
  async getForPromString(): ReturnType<Histogram<'cluster' | 'slot'>['get']> {
    return this.get();
  }
}
