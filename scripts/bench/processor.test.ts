import t from 'tap';
import { limitOf, openShares, processorMs, type Shares, sharesText } from './processor.ts';

const shares = (of: Shares['of'], others = 0): Shares => ({ of, others, processors: 2 });

t.test('the limit is the processors, a process that fills one, or neither', async (t) => {
  t.equal(
    limitOf(
      shares([
        ['MongoDB', 90],
        ['front door', 85],
      ]),
    ),
    'all processors, most of all MongoDB',
  );
  t.equal(limitOf(shares([['front door', 20]], 170)), 'other programs of the machine');
  t.equal(
    limitOf(
      shares([
        ['front door', 97],
        ['MongoDB', 20],
      ]),
    ),
    'front door',
  );
  t.equal(limitOf(shares([['front door', 40]], 10)), 'waiting, not processor time');
  t.equal(sharesText(shares([['front door', 40]], 10)), 'front door 40 %, other programs 10 %');
  t.equal(
    sharesText(
      shares([
        ['front door', 40],
        ['Redis', 0],
      ]),
    ),
    'front door 40 %',
  );
});

t.test(
  'the shares of processes are sorted and leave out unknown ones',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const end = openShares({ self: process.pid, unknown: undefined });
    for (const from = performance.now(); performance.now() - from < 40; );
    t.match(
      end().of.map(([name]) => name),
      ['self'],
    );
    t.ok(processorMs(process.pid) > 0);
    t.ok(Number.isNaN(processorMs(undefined)));
  },
);
