import { runChecks } from '#testing/checks/run-checks.ts';

/**
 * `npm test`: runs every check of CI. Arguments: parts of paths select test files (`npm test -- shared/attempt`) and skip the static
 * checks. `--quick` runs the static checks, the tests without stores, and one test of a whole cluster. `--pure`, which is
 * `npm run check`, omits that one as well.
 * `--every-engine` repeats the tests that depend on the database on each engine of this machine.
 */
const OPTIONS = ['--quick', '--pure', '--every-engine'];
const args = process.argv.slice(2);
const filters = args.filter((arg) => !OPTIONS.includes(arg));
const unknown = filters.find((arg) => arg.startsWith('-'));
if (unknown !== undefined) {
  console.error(
    `error: unknown option ${unknown}; usage: npm test -- [--quick | --pure | --every-engine] [part of a path …]`,
  );
  process.exit(2);
}
const has = (option: string) => args.includes(option);
process.exit(
  await runChecks({ quick: has('--quick'), pure: has('--pure'), everyEngine: has('--every-engine'), filters }),
);
