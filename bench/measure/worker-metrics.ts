/** What the workers say of themselves at `/metrics`: their lateness, to be compared with what the broker recorded. */
export interface OwnLateness {
  /** Upper bounds in ms, the last one infinite, and how many triggers were at or below each. */
  bounds: number[];
  within: number[];
}

export interface WorkerMetrics {
  lateness: OwnLateness;
  /** Least progress T over all slots, UTC ms; infinite where there is none. */
  leastProgressMs: number;
  published: number;
  /** Jobs recorded as finished. */
  finished: number;
}

const SAMPLE = /^carillon_(\w+?)(?:\{([^}]*)\})? (\S+)$/;

/** Reads the metrics of all workers and adds them up. */
export async function workerMetrics(urls: readonly string[]): Promise<WorkerMetrics> {
  const texts = await Promise.all(urls.map(async (url) => (await fetch(`${url}/metrics`)).text()));
  return parseMetrics(texts);
}

export function parseMetrics(texts: readonly string[]): WorkerMetrics {
  const within = new Map<number, number>();
  // A worker that gave a slot away still shows how far it had come there: the furthest counts.
  const progress = new Map<string, number>();
  let published = 0;
  let finished = 0;
  for (const line of texts.flatMap((text) => text.split('\n'))) {
    const [, name, labels = '', value] = SAMPLE.exec(line) ?? [];
    if (name === 'trigger_lateness_milliseconds_bucket') {
      const text = /le="([^"]+)"/.exec(labels)?.[1] ?? '+Inf';
      const bound = text === '+Inf' ? Number.POSITIVE_INFINITY : Number(text);
      within.set(bound, (within.get(bound) ?? 0) + Number(value));
    } else if (name === 'progress_t_ms') {
      progress.set(labels, Math.max(progress.get(labels) ?? 0, Number(value)));
    } else if (name === 'triggers_total' && labels.includes('result="published"')) {
      published += Number(value);
    } else if (name === 'jobs_finished_total') {
      finished += Number(value);
    }
  }
  const bounds = [...within.keys()].sort((a, b) => a - b);
  const lateness = { bounds, within: bounds.map((bound) => within.get(bound)!) };
  const leastProgressMs = Math.min(Number.POSITIVE_INFINITY, ...progress.values());
  return { lateness, leastProgressMs, published, finished };
}

/** What came between two readings. */
export function latenessBetween(before: OwnLateness, after: OwnLateness): OwnLateness {
  const earlier = new Map(before.bounds.map((bound, i) => [bound, before.within[i]!]));
  return { bounds: after.bounds, within: after.within.map((n, i) => n - (earlier.get(after.bounds[i]!) ?? 0)) };
}

/** Share at or below each bound, by the worker and by the broker; `difference` is the greatest gap, 0 to 1. */
export function compareLateness(
  own: OwnLateness,
  broker: { shareWithin(ms: number): number },
): { rows: { bound_ms: number; worker: number; broker: number }[]; difference: number } {
  const total = own.within.at(-1) ?? 0;
  const rows = own.bounds.map((bound, i) => ({
    bound_ms: bound,
    worker: total === 0 ? 0 : own.within[i]! / total,
    broker: broker.shareWithin(bound),
  }));
  // The last bound is infinite, which says nothing and which JSON has no word for.
  return {
    rows: rows.slice(0, -1),
    difference: Math.max(0, ...rows.map(({ worker, broker: its }) => Math.abs(worker - its))),
  };
}
