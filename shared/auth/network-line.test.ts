import fc from 'fast-check';
import t from 'tap';
import { type LineLimits, type NetworkLine, networkLine, type Waiting } from './network-line.ts';

const UNLIMITED: LineLimits = {
  total: Number.POSITIVE_INFINITY,
  ofAddress: Number.POSITIVE_INFINITY,
  ofAccount: Number.POSITIVE_INFINITY,
};

interface Piece extends Waiting {
  name: string;
}

/** Returns a piece of the address at this path, such as `a/a1`. Its name has a number if the address has several. */
function piece(path: string, nth = 0, account: string | null = null): Piece {
  return { name: nth === 0 ? path : `${path}#${nth}`, networks: path.split('/'), account };
}

function served(line: NetworkLine<Piece>): string[] {
  const names: string[] = [];
  for (let next = line.shift(); next !== undefined; next = line.shift()) names.push(next.name);
  return names;
}

t.test('networks take turns at every level, and the pieces of an address keep their order', async (t) => {
  const line = networkLine<Piece>(UNLIMITED);
  for (const path of ['a/a1', 'a/a2', 'a/a3']) for (const nth of [1, 2]) line.push(piece(path, nth));
  for (const path of ['b/b1', 'c']) line.push(piece(path));
  t.strictSame(served(line), ['a/a1#1', 'b/b1', 'c', 'a/a2#1', 'a/a3#1', 'a/a1#2', 'a/a2#2', 'a/a3#2']);
  t.equal(line.size(), 0);
});

t.test('an address that comes again and again gets no second turn before another one has its first', async (t) => {
  const line = networkLine<Piece>(UNLIMITED);
  line.push(piece('a/a1', 1));
  line.push(piece('b/b1'));
  t.equal(line.shift()?.name, 'a/a1#1');
  line.push(piece('a/a1', 2));
  t.strictSame(served(line), ['b/b1', 'a/a1#2']);
});

t.test('an address and an account have a share of the line', async (t) => {
  const line = networkLine<Piece>({ total: 10, ofAddress: 3, ofAccount: 2 });
  const push = (path: string, account: string) => line.push(piece(path, 0, account)) === null;
  t.strictSame(
    [push('a', 'eve'), push('b', 'eve'), push('c', 'eve')],
    [true, true, false],
    'from all addresses together',
  );
  t.strictSame(
    ['an', 'binh', 'chi'].map((account) => push('a', account)),
    [true, true, false],
  );
  t.equal(line.hasRoom(piece('a', 0, 'chi')), false);
  t.equal(line.shift()?.account, 'eve');
  t.strictSame([push('d', 'eve'), push('a', 'chi')], [true, true], 'places that became free may be used again');
});

t.test('where the line is full, a newcomer displaces the newest of the fullest branch', async (t) => {
  const line = networkLine<Piece>({ total: 6, ofAddress: 3, ofAccount: 1 });
  for (const path of ['a/x/1', 'a/x/1', 'a/x/2', 'a/y/3', 'b/z/4']) line.push(piece(path, line.size() + 1));
  t.equal(line.push(piece('b/z/4', 6, 'an')), null, 'not full yet');
  t.equal(line.push(piece('c/w/5'))?.name, 'a/x/1#2', 'the fullest address of the fullest part');
  t.equal(line.push(piece('a/y/6'))?.name, 'a/y/6', 'a newcomer of the fullest part displaces none');
  t.equal(line.push(piece('b/v/7'))?.name, 'b/z/4#6', 'one whose network is as full as the fullest displaces its own');
  t.equal(line.push(piece('d/u/8'))?.name, 'a/x/2#3', 'of equally full addresses that whose turn is farthest');
  t.equal(line.push(piece('e/s/9'))?.name, 'b/v/7', 'and so on, until all have the same');
  t.equal(line.hasRoom(piece('e/s/9', 0, 'binh')), false, 'e would be as full as the fullest');
  t.equal(line.push(piece('f/r/0', 0, 'an'))?.name, 'a/y/3#4', 'the account of a displaced piece has its place again');
  t.equal(line.size(), 6);
  t.equal(line.push(piece('g/q/1'))?.name, 'g/q/1', 'six networks with one piece each displace none of each other');
});

t.test('a line with no place takes nothing', async (t) => {
  const line = networkLine<Piece>({ total: 0, ofAddress: 6, ofAccount: 6 });
  t.equal(line.hasRoom(piece('a')), false);
  t.equal(line.push(piece('a'))?.name, 'a');
});

t.test('a line never exceeds a limit, loses no piece, and announces whether it has room', async () => {
  const path = fc
    .tuple(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('x', 'y'), fc.nat(2))
    .map(([wide, part, address]) => `${wide}/${wide}${part}/${address}`);
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.tuple(path, fc.constantFrom('an', 'binh', null)) },
    { weight: 1, arbitrary: fc.constant(null) },
  );
  const limits = { total: 7, ofAddress: 3, ofAccount: 4 };
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const line = networkLine<Piece>(limits);
      let inside: Piece[] = [];
      for (const [nth, next] of steps.entries()) {
        if (next === null) {
          const first = line.shift();
          if ((first === undefined) !== (inside.length === 0)) return false;
          inside = inside.filter((one) => one !== first);
          continue;
        }
        const newcomer = piece(next[0], nth + 1, next[1]);
        const [had, before] = [line.hasRoom(newcomer), inside.length];
        const lost = line.push(newcomer);
        if (had === (lost === newcomer)) return false;
        if (lost !== null && lost !== newcomer && before < limits.total) return false;
        inside = [...inside, newcomer].filter((one) => one !== lost);
      }
      const most = (key: (one: Piece) => string | null) =>
        Math.max(0, ...[...Map.groupBy(inside, key)].map(([name, pieces]) => (name === null ? 0 : pieces.length)));
      const isBounded =
        inside.length <= limits.total &&
        most(({ networks }) => networks.join('/')) <= limits.ofAddress &&
        most(({ account }) => account) <= limits.ofAccount;
      return isBounded && line.size() === inside.length && served(line).length === inside.length;
    }),
  );
});
