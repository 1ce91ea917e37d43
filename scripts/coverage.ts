import { runChecks } from './checks/run-checks.ts';

/**
 * `npm run coverage [-- part of a path …]`: the tests with coverage, as a table and as pages in `.tap/report`. No threshold
 * fails the run. Processes that a test kills record nothing.
 */
const tapOptions = ['--no-disable-coverage', '--coverage-report=text', '--coverage-report=html'];
process.exit(await runChecks({ filters: process.argv.slice(2), tapOptions }));
