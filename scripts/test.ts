import { runChecks } from './testing/run-checks.ts';

/**
 * `npm test`: every check that CI runs. Arguments: parts of paths choose test files (`npm test -- shared/attempt`) and leave the
 * static checks out; `--pure` leaves out what needs MongoDB, Redis or whole processes; other options go to tap.
 */
const args = process.argv.slice(2);
const pure = args.includes('--pure');
const rest = args.filter((arg) => arg !== '--pure');
process.exit(await runChecks(pure ? ['pure'] : ['pure', 'int', 'e2e'], rest));
