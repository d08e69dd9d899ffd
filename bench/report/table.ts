import type { Fault } from '../limits.ts';
import type { Result } from './result.ts';

const NOT_SHOWN = new Set(['name', 'config', 'machine', 'series', 'spread', 'own_lateness', 'rss_series']);

/** The result for people. */
export function printResult(result: Result, faults: readonly Fault[]): void {
  const { name, config, machine } = result;
  console.log(
    `\nbench ${name} on ${machine.cores} cores (${machine.cpu}), Node ${machine.node}, Kafka ${machine.kafka}`,
  );
  console.log(
    `  ${config.jobs} jobs, period ${config.periodMs} ms, ${config.seconds} s, ${config.workers} worker(s), ${config.envelope}, ` +
      `${config.delivery}, ${config.payloadBytes} bytes of payload, ${config.partitions} partitions`,
  );
  for (const [field, value] of Object.entries(result)) {
    if (NOT_SHOWN.has(field) || value === undefined) continue;
    if (Array.isArray(value)) {
      console.log(`  ${field}`);
      for (const row of value) console.log(`    ${shown(row)}`);
      continue;
    }
    const spread = spreadOf(result, field);
    console.log(`  ${field.padEnd(28)}${shown(value)}${spread}`);
  }
  for (const { told } of faults) console.error(`FAILED: ${told}`);
}

function shown(value: unknown): string {
  if (typeof value === 'number') return value.toLocaleString('en-US', { maximumFractionDigits: 3 });
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return value.map(shown).join(', ');
  return Object.entries(value)
    .map(([name, one]) => `${name} ${shown(one)}`)
    .join('   ');
}

function spreadOf({ spread }: Result, field: string): string {
  if (spread === undefined) return '';
  const ranges = Object.entries(spread).filter(([path]) => path === field || path.startsWith(`${field}.`));
  if (ranges.length === 0) return '';
  return `   (${ranges.map(([path, [least, most]]) => `${path.slice(field.length + 1)} ${least} to ${most}`.trim()).join(', ')})`;
}
