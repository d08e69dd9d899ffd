/**
 * URL of a module beside the one that asks, for threads: they are loaded by file name, which ends in `.ts` in the repository
 * and in `.js` in the published form.
 */
export function siblingModule(of: string, name: string): string {
  return new URL(`./${name}${of.slice(of.lastIndexOf('.'))}`, of).href;
}
