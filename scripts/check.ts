import { runChecks } from '#scripts/checks/run-checks.ts';

/** `npm run check`: types, lint, layers, prose, generated files and the pure tests. Takes a minute or two, without MongoDB or Redis. */
process.exit(await runChecks({ pure: true }));
