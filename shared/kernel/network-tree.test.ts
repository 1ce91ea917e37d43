import fc from 'fast-check';
import t from 'tap';
import { networkTree, type Path } from './network-tree.ts';

interface Item {
  path: Path;
}

const paths = fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('x', 'y'), fc.constantFrom('1', '2', '3'));

/** Returns the number of items whose path begins so. */
function sizeIn(items: readonly Item[], begin: Path): number {
  return items.filter(({ path }) => begin.every((name, at) => path[at] === name)).length;
}

/** Returns the number of places with which both paths begin. */
function common(one: Path, other: Path): number {
  const at = one.findIndex((name, place) => other[place] !== name);
  return at === -1 ? one.length : at;
}

t.test('a newcomer displaces only from a branch that keeps as many items as its own', async () => {
  fc.assert(
    fc.property(
      fc.array(paths, { minLength: 1, maxLength: 30 }),
      paths,
      fc.constantFrom('nearest' as const, 'farthest' as const),
      (given, newcomer, ofEquals) => {
        const tree = networkTree<Item>();
        const items = given.map((path) => ({ path }));
        for (const item of items) tree.add(item.path, item);
        const [yielding] = tree.fullest(newcomer, ofEquals) ?? [];

        /** Branches that are beside the newcomer's own at some level, and fuller than it by two at least. */
        const fuller = items.filter(({ path }) => {
          const apart = common(path, newcomer);
          if (apart === newcomer.length) return false;
          return sizeIn(items, path.slice(0, apart + 1)) >= sizeIn(items, newcomer.slice(0, apart + 1)) + 2;
        });
        if (yielding === undefined) return fuller.length === 0;
        const widest = Math.min(...fuller.map(({ path }) => common(path, newcomer)));
        if (common(yielding.path, newcomer) !== widest) return false;
        // Below that level it is the fullest part of each branch.
        for (let level = widest; level < newcomer.length; level += 1) {
          const inside = items.filter(({ path }) => common(path, yielding.path) >= level);
          const most = Math.max(...inside.map(({ path }) => sizeIn(items, path.slice(0, level + 1))));
          if (sizeIn(items, yielding.path.slice(0, level + 1)) !== most) return false;
        }
        return true;
      },
    ),
  );
});

t.test('each item is removed once, by its path or in its turn, and leaves no branch behind', async () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(paths, fc.boolean()), { maxLength: 30 }), (given) => {
      const tree = networkTree<Item>();
      const items = given.map(([path, isCancelled]) => ({ path, isCancelled }));
      for (const item of items) tree.add(item.path, item);
      const cancelled = items.filter(({ isCancelled }) => isCancelled);
      const areRemoved = cancelled.every((item) => tree.remove(item.path, item) && !tree.remove(item.path, item));

      const waiting = items.filter(({ isCancelled }) => !isCancelled);
      const areCounted =
        tree.size() === waiting.length && waiting.every(({ path }) => tree.sizeOf(path) === sizeIn(waiting, path));
      const served = Array.from({ length: waiting.length }, () => tree.shift());
      const areServed = new Set(served).size === waiting.length && tree.shift() === undefined;
      return areRemoved && areCounted && areServed && tree.fullest(['a', 'x', '1'], 'nearest') === null;
    }),
  );
});
