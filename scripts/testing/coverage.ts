import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { runChecks } from '#testing/checks/run-checks.ts';

/**
 * `npm run coverage [-- part of a path …]`: runs the tests with coverage and writes a table and pages in `.tap/report`. No threshold fails
 * the run. Processes that a test kills record no coverage.
 */
const REPORTS = ['text', 'html'];

const tapOptions = ['--no-disable-coverage', '--coverage-report=json-summary'];
const code = await runChecks({ filters: process.argv.slice(2), tapOptions });
const root = path.resolve(import.meta.dirname, '../..');
spawnSync(process.execPath, ['node_modules/.bin/tap', 'report', ...REPORTS], { cwd: root, stdio: 'inherit' });
process.exit(code);
