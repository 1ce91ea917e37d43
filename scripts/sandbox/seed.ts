import { runSeed } from '#scripts/sandbox/seed/run-seed.ts';

/** `npm run seed`: fills a running cluster with a school. */
process.exitCode = await runSeed(process.argv.slice(2), {
  env: process.env,
  output: process.stdout,
  fail: (line) => void process.stderr.write(`${line}\n`),
});
