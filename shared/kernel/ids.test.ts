import fc from 'fast-check';
import t from 'tap';
import { derivedId, isNewId, newId } from './ids.ts';

const PARENT = '01a2059e-79b6-7fd1-826e-3a08970562b0';

t.test('a part of a stored object keeps its id for ever', async (t) => {
  // Ids that clients have received. Other values would be ids of parts that no client knows.
  t.equal(derivedId(PARENT, 'question:0'), '01a2059e-79b6-7875-a849-2c9d75cde4ff');
  t.equal(derivedId(PARENT, 'event:17'), '01a2059e-79b6-7b9d-8d0e-3b39065cdc11');
  t.equal(derivedId('not hexadecimal', 'question:0'), '00000000-0000-75b2-a148-dd230dceb0b5');
  t.equal(derivedId('01a2', 'câu hỏi'), '01a20000-0000-72aa-9eeb-2f282521055b');
});

t.test('new and derived ids are UUIDs of version 7', async (t) => {
  const moments = fc.integer({ min: 0, max: 2 ** 48 - 1 });
  fc.assert(
    fc.property(moments, fc.string(), (now, name) => isNewId(newId(now)) && isNewId(derivedId(newId(now), name))),
  );
  t.equal(newId(0x01_9a_bc_de_f0_12).slice(0, 13), '019abcde-f012', 'they begin with the time');
  t.not(newId(1), newId(1));
});

t.test('the parts of one parent, and one part of two parents, have different ids', async (t) => {
  const ids = [PARENT, newId()].flatMap((parent) => [0, 1].map((n) => derivedId(parent, `question:${n}`)));
  t.equal(new Set(ids).size, 4);
});
