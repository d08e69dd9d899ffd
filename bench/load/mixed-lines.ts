/** Jobs of all kinds for the registration benchmark: none of them is due soon, so that registering is all that happens. */
import { jobKey, payloadText } from './job-lines.ts';

const DAY_S = 86_400;
const EXPRESSIONS = 5_000;
const ZONES = 100;

/** 5,000 distinct daily crons: neighbours lie 7,919 s apart, a prime that has no part in common with the day. */
function expression(n: number): string {
  const second = (n * 7_919) % DAY_S;
  return `${second % 60} ${Math.floor(second / 60) % 60} ${Math.floor(second / 3_600)} * * *`;
}

/** Half cron, 40 % fixed rate, 10 % one-shot. */
export function* mixedLines(jobs: number, payloadBytes: number, nowMs: number): Generator<string, void, void> {
  const all = Intl.supportedValuesOf('timeZone');
  const zones = all.filter((_, i) => i % Math.floor(all.length / ZONES) === 0).slice(0, ZONES);
  for (let job = 0; job < jobs; job += 1) {
    yield `{"key":"${jobKey(job)}","schedule":${schedule(job, zones, nowMs)},"payload":${payloadText(job, payloadBytes)}}`;
  }
}

function schedule(job: number, zones: readonly string[], nowMs: number): string {
  const kind = job % 10;
  if (kind < 5) {
    const zone = zones[job % zones.length]!;
    return `{"kind":"cron","expression":"${expression(job % EXPRESSIONS)}","zone":"${zone}"}`;
  }
  if (kind < 9) {
    // Periods from one to two hours, the first one a period away.
    return `{"kind":"rate","everyMs":${3_600_000 + (job % 3_600) * 1_000}}`;
  }
  return `{"kind":"once","at":"${new Date(nowMs + DAY_S * 1_000 + (job % DAY_S) * 1_000).toISOString()}"}`;
}
