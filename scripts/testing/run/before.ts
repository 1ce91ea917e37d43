import { endAbandonedStores, startStores } from './stores.ts';

/**
 * Program: `before` of .taprc. Starts the stores of each lane before the first test file; its parent is the runner. Fills Node's compile
 * cache meanwhile: tests start hundreds of front doors and workers, and kill most of them before they have stored what they compiled.
 */
endAbandonedStores();
const { NODE_COMPILE_CACHE, TAP_JOBS = '1' } = process.env;
await Promise.all([
  startStores(process.ppid, Number(TAP_JOBS)),
  NODE_COMPILE_CACHE === undefined ? undefined : import('#scripts/compile.ts'),
]);
// The stores go on without this process.
process.exit(0);
