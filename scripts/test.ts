import { runChecks } from '#scripts/checks/run-checks.ts';

/**
 * `npm test`: runs every check of CI. Arguments: parts of paths select test files (`npm test -- shared/attempt`) and skip the static
 * checks. `--pure` skips every test that needs MongoDB, Redis or whole processes. `--every-engine` repeats the tests that depend on the
 * database on each engine of this machine.
 */
const OPTIONS = ['--pure', '--every-engine'];
const args = process.argv.slice(2);
const filters = args.filter((arg) => !OPTIONS.includes(arg));
const unknown = filters.find((arg) => arg.startsWith('-'));
if (unknown !== undefined) {
  console.error(`error: unknown option ${unknown}; usage: npm test -- [--pure | --every-engine] [part of a path …]`);
  process.exit(2);
}
process.exit(await runChecks({ pure: args.includes('--pure'), everyEngine: args.includes('--every-engine'), filters }));
