import { globSync } from 'node:fs';

export type TestCost = 'pure' | 'int' | 'e2e';

export interface TestFile {
  readonly path: string;
  readonly cost: TestCost;
}

/** The suffix tells the cost: `.test.ts` needs nothing, `.int.test.ts` the stores, `.e2e.test.ts` whole processes. */
function testCost(path: string): TestCost {
  if (path.endsWith('.int.test.ts')) return 'int';
  return path.endsWith('.e2e.test.ts') ? 'e2e' : 'pure';
}

const FOLDERS = ['api', 'workers', 'shared', 'scripts'];
/** The long ones first: the short ones then fill what is left of each lane. */
const ORDER: readonly TestCost[] = ['e2e', 'int', 'pure'];

/** Every test file whose path holds one of `filters` (all of them when there is none), in the order to run them. */
export function findTestFiles(root: string, filters: readonly string[], costs: readonly TestCost[]): TestFile[] {
  const found = globSync(
    FOLDERS.map((folder) => `${folder}/**/*.test.ts`),
    { cwd: root, exclude: (name) => name === 'node_modules' },
  );
  return found
    .map((path) => ({ path, cost: testCost(path) }))
    .filter(({ cost }) => costs.includes(cost))
    .filter(({ path }) => filters.length === 0 || filters.some((filter) => path.includes(filter.replace(/^\.\//, ''))))
    .sort((a, b) => ORDER.indexOf(a.cost) - ORDER.indexOf(b.cost) || a.path.localeCompare(b.path));
}
