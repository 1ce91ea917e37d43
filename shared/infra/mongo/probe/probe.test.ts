import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { FLAWS } from '#testing/stores/flaws.ts';
import { BEHAVIOURS, UnfitServer } from './probe.ts';

const GUIDE = path.resolve(import.meta.dirname, '../../../../docs/operating.md');
const names = BEHAVIOURS.map(({ name }) => name);

t.test('every behaviour of the probe has a unique name and a flaw that proves its check', async (t) => {
  t.equal(new Set(names).size, names.length);
  const lacking = new Set(FLAWS.map(({ lacks }) => lacks));
  t.strictSame([...lacking].sort(), [...names].sort());
});

t.test('docs/operating.md lists every behaviour of the probe, and what breaks without it', async (t) => {
  const [, section = ''] = readFileSync(GUIDE, 'utf8').split('\n## Which MongoDB\n');
  const [table = ''] = section.split('\n## ');
  const rows = [...table.matchAll(/^\| `([a-z ]+)` +\| (.+?) +\|$/gm)].map(([, name, breaks]) => ({ name, breaks }));
  t.strictSame(
    rows,
    BEHAVIOURS.map(({ name, breaks }) => ({ name, breaks })),
  );
});

t.test('the error for an unfit server lists the missing behaviours and their consequences', async (t) => {
  const server = { version: '5.0.0', build: '5.0.0 0123', topology: 'replica set rs0', now: 0 };
  const findings = [
    { name: 'freed keys', breaks: 'Nothing could be posted again.', fault: 'the key stays taken' },
    { name: 'literals', breaks: 'Texts would be lost.', fault: null },
  ];
  const lines = new UnfitServer({ server, findings }).message.split('\n');
  t.match(lines[0], 'MongoDB 5.0.0, replica set rs0) lacks 1 of 2 behaviours');
  t.equal(lines[1], '  freed keys: the key stays taken. Nothing could be posted again.');
  t.equal(lines.length, 3);
});
