import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { runChecks } from '#testing/checks/run-checks.ts';

/**
 * `npm test`: runs every check of CI. Arguments: parts of paths select test files (`npm test -- shared/attempt`) and skip the static
 * checks. `--quick` runs the static checks, the tests without stores, and one test of a whole cluster. `--pure`, which is
 * `npm run check`, omits that one as well. `--every-engine` repeats the tests that depend on the database on each engine of this machine.
 * `--coverage`, which is `npm run coverage`, writes a table and pages in `.tap/report`. No threshold fails the run, and processes that a
 * test kills record no coverage.
 */
const OPTIONS = ['--quick', '--pure', '--every-engine', '--coverage'];
const args = process.argv.slice(2);
const filters = args.filter((arg) => !OPTIONS.includes(arg));
const unknown = filters.find((arg) => arg.startsWith('-'));
if (unknown !== undefined) {
  console.error(`error: unknown option ${unknown}; usage: npm test -- [${OPTIONS.join(' | ')}] [part of a path …]`);
  process.exit(2);
}
const has = (option: string) => args.includes(option);
const tapOptions = has('--coverage') ? ['--no-disable-coverage', '--coverage-report=json-summary'] : [];
const [quick, pure, everyEngine] = [has('--quick'), has('--pure'), has('--every-engine')];
const code = await runChecks({ quick, pure, everyEngine, filters, tapOptions });
if (has('--coverage')) {
  const cwd = path.resolve(import.meta.dirname, '../..');
  spawnSync(process.execPath, ['node_modules/.bin/tap', 'report', 'text', 'html'], { cwd, stdio: 'inherit' });
}
process.exit(code);
