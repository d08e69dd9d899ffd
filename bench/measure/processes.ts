/**
 * What processes cost, from the kernel: CPU time of all threads (utime and stime of /proc/PID/stat, see proc(5)) and the
 * memory that they hold (VmRSS of /proc/PID/status).
 */
import { readFileSync } from 'node:fs';

/** The kernel counts CPU time in ticks of this many ms (USER_HZ is 100 on all Linux that Node runs on). */
const TICK_MS = 10;

export interface Watched {
  /** As in the result: `worker-0`, `kafka`. */
  name: string;
  pid: number;
}

/** CPU time so far, in ms; 0 for a process that is gone. */
export function cpuMs(pid: number): number {
  const stat = read(`/proc/${pid}/stat`);
  // The second field is the name in brackets and may hold spaces; utime and stime are fields 14 and 15.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return stat === '' ? 0 : (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Memory in RAM, in MB of 10^6 bytes; 0 for a process that is gone. */
export function rssMb(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(read(`/proc/${pid}/status`))?.[1] ?? '0';
  return Math.round((Number(kib) * 1024) / 1e6);
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

export interface Usage {
  /** CPU time between start and stop, in ms, by name. */
  cpuMs: Record<string, number>;
  /** The most memory that was seen, in MB, by name. */
  rssMb: Record<string, number>;
  /** Memory by second, in MB, by name: whether it stays flat. */
  rssSeries: Record<string, number[]>;
}

const SAMPLE_MS = 1_000;

/** Watches processes from now until `stop`. */
export function watch(processes: readonly Watched[]): { stop(): Usage } {
  const before = processes.map(({ pid }) => cpuMs(pid));
  const rssSeries: Record<string, number[]> = {};
  const sample = (): void => {
    for (const { name, pid } of processes) {
      rssSeries[name] ??= [];
      rssSeries[name].push(rssMb(pid));
    }
  };
  sample();
  // A benchmark that failed must not be kept alive by what watched it.
  const timer = setInterval(sample, SAMPLE_MS).unref();
  return {
    stop() {
      clearInterval(timer);
      sample();
      const used = processes.map(({ name, pid }, i) => [name, cpuMs(pid) - before[i]!] as const);
      const most = processes.map(({ name }) => [name, Math.max(...rssSeries[name]!)] as const);
      return { cpuMs: Object.fromEntries(used), rssMb: Object.fromEntries(most), rssSeries };
    },
  };
}

/** Sums CPU by kind: `worker-0` and `worker-1` are `worker`. */
export function cpuByKind(used: Readonly<Record<string, number>>): Record<string, number> {
  const out: Record<string, number> = {};
  for (const [name, ms] of Object.entries(used)) {
    const kind = name.replace(/-\d+$/, '');
    out[kind] = (out[kind] ?? 0) + ms;
  }
  return out;
}
