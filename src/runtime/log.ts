import { type DestinationStream, type Logger, pino } from 'pino';
import { withoutPassword } from './config.ts';

export type Log = Logger;

export interface LogOptions {
  level: string;
  /** Fields of every line: role, incarnation and the like. */
  base?: Record<string, unknown>;
  /** Standard output when it is absent. */
  destination?: DestinationStream;
}

/** Bytes of log lines that wait for a slow reader of standard output; lines beyond are dropped, since a log must not block. */
const WAITING_BYTES = 4 * 1024 * 1024;

/** Fields that are never written, at the top of a line and one level below. */
const SECRET_FIELDS = ['apiKey', 'password', 'secret', 'authorization', 'cookie'];

/**
 * JSON lines: `level` as a word, `time` in ISO 8601, `msg`, and the fields of the event. Secrets are left out: fields by
 * their name, passwords inside addresses wherever they stand in a text.
 */
export function createLog(options: LogOptions): Log {
  const destination = options.destination ?? standardOutput();
  return pino(
    {
      level: options.level,
      base: options.base ?? {},
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths: SECRET_FIELDS.flatMap((field) => [field, `*.${field}`]), censor: '***' },
      formatters: { level: (label) => ({ level: label }), log: cleaned },
      serializers: { err: (error) => cleaned(pino.stdSerializers.err(error)) },
    },
    destination,
  );
}

function standardOutput(): DestinationStream {
  const output = pino.destination({ dest: 1, sync: false, maxLength: WAITING_BYTES });
  process.on('exit', () => output.flushSync());
  return output;
}

function cleaned(fields: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(fields).map(([name, value]) => [
    name,
    typeof value === 'string' ? withoutPassword(value) : value,
  ]);
  return Object.fromEntries(entries);
}
