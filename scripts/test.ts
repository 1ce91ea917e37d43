import { runChecks } from '#scripts/checks/run-checks.ts';

/**
 * `npm test`: every check that CI runs. Arguments: parts of paths select test files (`npm test -- shared/attempt`) and skip the
 * static checks; `--pure` skips every test that needs MongoDB, Redis or whole processes; `--every-engine` runs the tests that
 * rest on the database on each engine that this machine has.
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
