import path from 'node:path';
import { checkTree } from '#scripts/layers/check-tree.ts';

/**
 * Checks the layers of ARCHITECTURE.md: kernel ← rules ← infra ← api | workers. Prints each import that violates them and each production
 * file of the wrong size. Exits with 1 if there is one.
 */
const violations = checkTree(path.resolve(import.meta.dirname, '..'));
for (const { where, what, reason } of violations) console.log(`${where}: ${what}\n    ${reason}`);
if (violations.length > 0) console.log(`${violations.length} violations of the layers`);
process.exitCode = violations.length > 0 ? 1 : 0;
