/**
 * What the engine tells about itself. Costs nothing to leave out (`silentTelemetry`), never throws, never blocks. Names of
 * counters and gauges are snake case with their unit and become Prometheus names with the prefix `carillon_`.
 */
export interface Telemetry {
  count(name: string, labels?: Labels, by?: number): void;
  /** Depth and bound of a queue and the like: the last value counts. */
  gauge(name: string, value: number, labels?: Labels): void;
  /** Lateness of triggers: broker's or publisher's time minus effective time, ms; `n` triggers of the same value. */
  lateness(ms: number, n: number, labels: { cluster: string; slot: string }): void;
  /** An exception that somebody must be able to read: late, misfired, dropped, fenced, failed. */
  event(level: 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>): void;
}

export type Labels = Readonly<Record<string, string>>;

export const silentTelemetry: Telemetry = { count() {}, gauge() {}, lateness() {}, event() {} };
