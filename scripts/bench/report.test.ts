import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { markdownTable, notesOf, SECTIONS, textTable, writeReport, writeSection } from './report.ts';
import { meetsAim, type ReportRow, ratioOf } from './row.ts';

const row = (overrides: Partial<ReportRow>): ReportRow => ({
  name: 'a <b>',
  engine: 'fast',
  unit: 'ms',
  ours: { p50: 12, p99: 1_234 },
  reference: { p50: 10, p99: 20 },
  against: 'x | y',
  aim: { side: 'most', ratio: 1.3 },
  notes: ['odd'],
  ...overrides,
});

t.test('a bench ratio meets its aim on the right side of the bound or at the bound', async (t) => {
  t.equal(ratioOf(row({})), 1.2);
  t.equal(meetsAim(row({})), true);
  t.equal(meetsAim(row({ aim: { side: 'most', ratio: 1.19 } })), false);
  t.equal(meetsAim(row({ aim: { side: 'least', ratio: 1.2 } })), true);
  t.equal(meetsAim(row({ aim: { side: 'least', ratio: 1.21 } })), false);
  t.equal(meetsAim(row({ aim: null })), null);
  t.equal(meetsAim(row({ reference: null })), null);
});

t.test('the bench table shows each row with its engine and result, and escapes markdown', async (t) => {
  const text = textTable([row({})]);
  t.match(text, /a <b> +fast +12\.0 \/ 1 234 ms +10\.0 \/ 20\.0 ms +x \| y +1\.20× +≤ 1\.3× +yes/);
  t.match(
    markdownTable([row({})]),
    '| a <b>, fast | 12.0 / 1 234 ms | 10.0 / 20.0 ms (x \\| y) | 1.20×, aim ≤ 1.3×: met |',
  );
  t.match(markdownTable([row({ engine: null, reference: null })]), /\| a <b> \| [^|]* \| – \(x \\\| y\) \| – \|/);
  t.match(markdownTable([row({ aim: { side: 'most', ratio: 1 } })]), /\| 1\.20×, aim ≤ 1×: missed \|/);
});

t.test('the bench table groups the engines of a measure in the order of their runs', async (t) => {
  const measured = [
    row({ name: 'first' }),
    row({ name: 'second' }),
    row({ name: 'first', engine: 'slow' }),
    row({ name: 'second', engine: 'slow' }),
    row({ name: 'alone', engine: null }),
  ];
  const expected = ['first fast', 'first slow', 'second fast', 'second slow', 'alone –'];
  const [, ...lines] = textTable(measured).split('\n');
  t.strictSame(
    lines.map((line) => line.split(/ +/, 2).join(' ')),
    expected,
  );
  const [, , ...marked] = markdownTable(measured).split('\n');
  t.strictSame(
    marked.map((line) => line.split(' | ')[0]),
    expected.map((name) => `| ${name.replace(' –', '').replace(' ', ', ')}`),
  );
});

t.test('a bench note names its engine only if the notes of the engines differ', async (t) => {
  const rows = [row({ notes: ['same', 'took 2'] }), row({ engine: 'slow', notes: ['same', 'took 9'] })];
  t.strictSame(notesOf(rows), ['a <b>: same', 'a <b>, fast: took 2', 'a <b>, slow: took 9']);
  t.strictSame(notesOf([row({ engine: null })]), ['a <b>: odd']);
});

t.test('a new bench report keeps the hand-written section of the earlier page, wherever it is', async (t) => {
  const docs = t.testdir({});
  const file = path.join(docs, 'bench.md');
  const write = (against: string) => {
    writeReport(docs, [row({ against })], ['cores: 2']);
    return readFileSync(file, 'utf8');
  };
  const first = write('the first reference');
  t.notMatch(first, '## What helped', 'no section without an earlier one');

  const section =
    '## What helped\n\n| change | before |\n| --- | --- |\n| a `##` in a cell | 2 ms |\n\n### Of the door\n\nText.\n';
  for (const earlier of [first.replace('## Machine', `${section}\n## Machine`), `${first}\n${section}`]) {
    writeFileSync(file, earlier);
    const second = write('the second reference');
    t.equal(second.split(section).length, 2, 'the section, once');
    t.match(second, /the second reference.*## Notes.*## What helped.*## Machine\n\n- cores: 2\n$/s);
    t.notMatch(second, 'the first reference');
    t.equal(write('the second reference'), second, 'a further run changes nothing');
  }
});

t.test('a measure with a section replaces it in the report, and a full run keeps every section', async (t) => {
  const [morning, stretches] = Object.values(SECTIONS);
  if (morning === undefined || stretches === undefined) throw new Error('the report has no such sections');
  const writeMorning = (docs: string, rows: readonly ReportRow[], machine: readonly string[]) =>
    writeSection(docs, morning, rows, machine);
  const docs = t.testdir({});
  const file = path.join(docs, 'bench.md');
  writeReport(docs, [row({})], ['cores: 2']);
  const helped = '## What helped\n\nText.\n';
  writeFileSync(file, readFileSync(file, 'utf8').replace('## Machine', `${helped}\n## Machine`));
  const plain = readFileSync(file, 'utf8');

  writeMorning(docs, [row({ name: 'first morning', reference: null })], ['cores: 4']);
  const first = readFileSync(file, 'utf8');
  t.match(first, /## Notes.*## Exam morning\n.*first morning.*- cores: 4\n\n## What helped\n\nText\.\n\n## Machine\n/s);
  writeMorning(docs, [row({ name: 'second morning', reference: null })], ['cores: 4']);
  t.equal(readFileSync(file, 'utf8'), first.replaceAll('first morning', 'second morning'), 'replaced, once');
  writeReport(docs, [row({})], ['cores: 2']);
  t.equal(readFileSync(file, 'utf8'), first.replaceAll('first morning', 'second morning'), 'kept by a full run');
  writeFileSync(file, plain.slice(0, plain.indexOf('## What helped')));
  writeMorning(docs, [row({ name: 'first morning', reference: null })], ['cores: 4']);
  t.match(
    readFileSync(file, 'utf8'),
    /## Notes.*\n\n## Exam morning\n.*- cores: 4\n$/s,
    'the last section of a short page',
  );

  writeFileSync(file, plain);
  writeSection(docs, stretches, [row({ name: 'a stretch' })], ['cores: 4']);
  writeMorning(docs, [row({ name: 'first morning', reference: null })], ['cores: 4']);
  const both = readFileSync(file, 'utf8');
  t.match(both, /## Exam morning\n.*## Longest stretches\n.*a stretch.*## What helped\n/s);
  writeReport(docs, [row({})], ['cores: 2']);
  t.equal(readFileSync(file, 'utf8'), both);
});
