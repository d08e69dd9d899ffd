import type { Options } from '../options.ts';
import type { Result } from '../report/result.ts';

/** One benchmark: its name's file says what it shows. */
export interface Bench {
  what: string;
  defaults: Partial<Options>;
  /** It takes `--runs` itself, as rounds over its levels. */
  ownRuns?: true;
  run(options: Options, log: (line: string) => void): Promise<Result>;
}
