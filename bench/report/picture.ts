/**
 * Lateness as a picture: over time (p50, p99, maximum of each step) and its distribution, both on a logarithmic axis of ms.
 * SVG written by hand, so that a report needs no tool.
 */
import type { LatenessSeries, Result } from './result.ts';

const WIDTH = 900;
const PANEL = 260;
const LEFT = 70;
const RIGHT = 20;
const TOP = 50;
const GAP = 70;
const INNER = WIDTH - LEFT - RIGHT;
const LINES = [
  ['max', '#c0392b'],
  ['p99', '#d68910'],
  ['p50', '#1f618d'],
] as const;

export function picture(result: Result, series: LatenessSeries): string {
  const height = TOP + PANEL * 2 + GAP + 50;
  const { offered_per_s = 0, fired = 0, lost = 0, duplicated = 0, early = 0, config } = result;
  const title = `${result.name}: ${number(offered_per_s)}/s offered, ${number(fired)} fired, lost ${lost}, duplicated ${duplicated}, early ${early}; ${config.envelope}, ${config.delivery}`;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${height}" fill="white"/>`,
    text(LEFT, 24, title, 'start', 14),
    ...overTime(series, TOP),
    ...distribution(series, TOP + PANEL + GAP),
    '</svg>',
  ];
  return `${parts.join('\n')}\n`;
}

const number = (value: number): string => value.toLocaleString('en-US', { maximumFractionDigits: 0 });

function text(x: number, y: number, words: string, anchor = 'middle', size = 12): string {
  const safe = words.replace(/&/g, '&amp;').replace(/</g, '&lt;');
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" font-size="${size}" fill="#333">${safe}</text>`;
}

/** Where a lateness stands on an axis of this length: 0 to 1 ms at its beginning, then by powers of ten. */
function place(ms: number, decades: number, length: number): number {
  return (Math.log10(Math.max(1, ms)) / decades) * length;
}

function decadesOf(series: LatenessSeries): number {
  const most = Math.max(10, ...series.max);
  return Math.ceil(Math.log10(most + 1));
}

function overTime(series: LatenessSeries, top: number): string[] {
  const decades = decadesOf(series);
  const steps = series.max.length;
  const x = (step: number): number => LEFT + ((step + 0.5) / Math.max(1, steps)) * INNER;
  const y = (ms: number): number => top + PANEL - place(ms, decades, PANEL);
  const out = frame(top, `time, in steps of ${series.step_ms} ms`);
  for (let decade = 0; decade <= decades; decade += 1) {
    const at = y(10 ** decade);
    out.push(`<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at}" y2="${at}" stroke="#ddd"/>`);
    out.push(text(LEFT - 6, at + 4, `${number(10 ** decade)} ms`, 'end'));
  }
  const every = Math.max(1, Math.ceil(steps / 10));
  for (let step = 0; step < steps; step += every) {
    out.push(text(x(step), top + PANEL + 16, `${number((step * series.step_ms) / 1_000)} s`));
  }
  LINES.forEach(([name, color], i) => {
    const points = series[name].map((ms, step) => `${x(step).toFixed(1)},${y(ms).toFixed(1)}`).join(' ');
    out.push(`<polyline fill="none" stroke="${color}" stroke-width="1.5" points="${points}"/>`);
    out.push(`<text x="${WIDTH - RIGHT - 150 + i * 50}" y="${top - 8}" fill="${color}">${name}</text>`);
  });
  return out;
}

/** Share of triggers that are later than each ms: a straight look at the tail, down to one in a million. */
function distribution(series: LatenessSeries, top: number): string[] {
  const decades = decadesOf(series);
  const total = series.distribution.reduce((sum, [, n]) => sum + n, 0);
  const x = (ms: number): number => LEFT + place(ms, decades, INNER);
  const FLOOR = 7;
  const y = (share: number): number => top + (Math.min(FLOOR, -Math.log10(share)) / FLOOR) * PANEL;
  const out = frame(top, 'lateness in ms: share of triggers that are later');
  for (let power = 0; power <= FLOOR; power += 1) {
    const at = y(10 ** -power);
    out.push(`<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at}" y2="${at}" stroke="#ddd"/>`);
    const label = power === 0 ? 'all' : power <= 2 ? `${100 / 10 ** power} %` : `1e-${power}`;
    out.push(text(LEFT - 6, at + 4, label, 'end'));
  }
  for (let decade = 0; decade <= decades; decade += 1) {
    out.push(text(x(10 ** decade), top + PANEL + 16, `${number(10 ** decade)}`));
  }
  let later = total;
  const points = series.distribution.map(([ms, n]) => {
    const point = `${x(ms).toFixed(1)},${y(later / Math.max(1, total)).toFixed(1)}`;
    later -= n;
    return point;
  });
  out.push(`<polyline fill="none" stroke="#1f618d" stroke-width="1.5" points="${points.join(' ')}"/>`);
  return out;
}

function frame(top: number, label: string): string[] {
  return [
    `<rect x="${LEFT}" y="${top}" width="${INNER}" height="${PANEL}" fill="none" stroke="#999"/>`,
    text(LEFT + INNER / 2, top + PANEL + 34, label),
  ];
}
