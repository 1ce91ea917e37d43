import { runChecks } from '#testing/run-checks.ts';

/** `npm run check`: types, lint, layers, generated files and the pure tests. A minute or two, and no MongoDB or Redis. */
process.exit(await runChecks(['pure'], []));
