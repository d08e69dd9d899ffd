/** The jobs of a grid as lines of NDJSON, made one by one: a million of them never stand in memory. */
import { type Grid, phaseOf, startOf } from '../judge/grid.ts';

/** Digits at the end of the key are the job's number, which is all that the judge needs of it. */
export function jobKey(job: number): string {
  return `job-${String(job).padStart(8, '0')}`;
}

/** JSON of this many bytes; at least 9. */
export function payloadText(job: number, bytes: number): string {
  const head = `{"n":${job}`;
  const rest = bytes - head.length - 1;
  return rest < 7 ? `${head}}` : `${head},"p":"${'x'.repeat(rest - 7)}"}`;
}

const iso = (ms: number): string => new Date(ms).toISOString();

export function* gridLines(grid: Grid, payloadBytes: number): Generator<string, void, void> {
  const { firstKey = 0 } = grid;
  let lastStart = -1;
  let bounds = '';
  for (let job = 0; job < grid.jobs; job += 1) {
    const startMs = startOf(grid, job);
    if (startMs !== lastStart) {
      lastStart = startMs;
      const end = grid.endMs === undefined ? '' : `,"end":"${iso(grid.endMs)}"`;
      bounds = `,"start":"${iso(startMs)}"${end}`;
    }
    const atMs = grid.anchorMs + phaseOf(grid, job);
    const schedule = grid.once
      ? `{"kind":"once","at":"${iso(atMs)}"}`
      : `{"kind":"rate","everyMs":${grid.periodMs},"anchor":"${iso(atMs)}"}`;
    // A late one is to fire all the same and be judged as late.
    yield `{"key":"${jobKey(firstKey + job)}","schedule":${schedule}${grid.once ? '' : bounds},"payload":${payloadText(job, payloadBytes)}}`;
  }
}
