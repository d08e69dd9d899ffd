import { checkLines, type LinesResult, type LinesTask } from './check-lines.ts';

/** A piscina thread: checks bulk lines beside the event loop of the API. */
export default function run(task: LinesTask): LinesResult {
  return checkLines(task);
}
