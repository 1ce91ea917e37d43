import { runChecks } from '#testing/run-checks.ts';

/**
 * `npm test`: every check that CI runs. Arguments: parts of paths choose test files (`npm test -- shared/attempt`) and leave the
 * static checks out; `--pure` leaves out what needs MongoDB, Redis or whole processes.
 */
const args = process.argv.slice(2);
const pure = args.includes('--pure');
const filters = args.filter((arg) => arg !== '--pure');
const unknown = filters.find((arg) => arg.startsWith('-'));
if (unknown !== undefined) {
  console.error(`unknown option ${unknown}; usage: npm test -- [--pure] [part of a path …]`);
  process.exit(2);
}
process.exit(await runChecks(pure ? ['pure'] : ['pure', 'int', 'e2e'], filters));
