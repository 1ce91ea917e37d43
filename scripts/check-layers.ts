import path from 'node:path';
import { checkTree } from '#scripts/layers/check-tree.ts';

/** The arrows of ARCHITECTURE.md: kernel ← rules ← infra ← api | workers. Prints each import that goes against them,
 * and each production file whose size goes against the rule of the house. */
const violations = checkTree(path.resolve(import.meta.dirname, '..'));
for (const { where, what, reason } of violations) console.log(`${where}: ${what}\n    ${reason}`);
if (violations.length > 0) console.log(`${violations.length} rules of the house are broken`);
process.exitCode = violations.length > 0 ? 1 : 0;
