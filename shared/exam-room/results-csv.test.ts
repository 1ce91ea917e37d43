import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import type { Question } from '#shared/attempt/question.ts';
import { sampleAnswer, sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import { BYTE_ORDER_MARK, type CsvCell, type CsvFormat, csvLine } from './csv.ts';
import { InfoColumns, infoCells, infoHeader } from './info-columns.ts';
import { ResultColumns, resultCells, resultHeader } from './results-csv.ts';

const COMMA: CsvFormat = { separator: ',', decimal: '.' };

/** Reads a file by the grammar of RFC 4180, character by character. */
function parse(text: string, separator: string): string[][] {
  const lines: string[][] = [];
  let cells: string[] = [];
  let at = 0;
  while (at < text.length) {
    let cell = '';
    if (text[at] === '"') {
      for (at += 1; !(text[at] === '"' && text[at + 1] !== '"'); at += 1) {
        if (text[at] === '"') at += 1;
        cell += text[at];
        assert.ok(at < text.length, 'a quoted cell ends');
      }
      at += 1;
    } else {
      while (at < text.length && text[at] !== separator && text[at] !== '\r') {
        assert.ok(text[at] !== '"' && text[at] !== '\n', 'a bare cell has neither quote nor line feed');
        cell += text[at];
        at += 1;
      }
    }
    cells.push(cell);
    if (text[at] === separator) at += 1;
    else {
      assert.equal(text.slice(at, at + 2), '\r\n');
      at += 2;
      lines.push(cells);
      cells = [];
    }
  }
  assert.deepEqual(cells, [], 'the last line has its end');
  return lines;
}

const hostile = fc.string({
  unit: fc.constantFrom('=', '+', '-', '@', '\t', '\r', '\n', '"', ',', ';', "'", 'a', '1', 'ế', ' '),
});

t.test('a reader of RFC 4180 gets every cell back, and no text that a spreadsheet would run', async () => {
  const cell = fc.oneof(hostile, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null));
  const format = fc.record({ separator: fc.constantFrom(',', ';'), decimal: fc.constantFrom('.', ',') });
  fc.assert(
    fc.property(fc.array(fc.array(cell, { minLength: 1, maxLength: 5 })), format, (lines, drawn) => {
      const { separator, decimal } = drawn as CsvFormat;
      const read = parse(lines.map((line) => csvLine(line, { separator, decimal } as CsvFormat)).join(''), separator);
      const expected = lines.map((line) =>
        line.map((one) => {
          if (one === null) return '';
          if (typeof one === 'number') return String(one).replace('.', decimal);
          return typeof one === 'string' && '=+-@\t\r'.includes(one[0] ?? 'a') ? `'${one}` : String(one);
        }),
      );
      assert.deepEqual(read, expected);
    }),
  );
});

t.test('a number is a number in the country of its reader', async (t) => {
  const date = new Date('2026-03-02T01:00:00.000Z');
  const cells: CsvCell[] = [-1.5, 'An, "B"', true, null, date];
  t.equal(csvLine(cells, COMMA), '-1.5,"An, ""B""",true,,2026-03-02T01:00:00.000Z\r\n');
  t.equal(csvLine(cells, { separator: ';', decimal: ',' }), '-1,5;"An, ""B""";true;;2026-03-02T01:00:00.000Z\r\n');
  t.equal(csvLine([7.25], { separator: ',', decimal: ',' }), '"7,25"\r\n');
  t.equal(Buffer.from(BYTE_ORDER_MARK).toString('hex'), 'efbbbf');
});

const ESSAY = { type: 'ESSAY', options: [], answerKey: {}, scoringRule: { mode: 'ESSAY' } } satisfies Partial<Question>;

t.test('a line has the columns of all attempts, and those of its own paper are filled', async (t) => {
  const paper = { ...samplePaper({ questionId: 'first' }, { questionId: 'essay', ...ESSAY }), orderIndexes: [10, 20] };
  const other = samplePaper({ questionId: 'other' }, { questionId: 'essay', ...ESSAY });
  const columns = new ResultColumns();
  columns.info.add('{"name":"An","class":{"id":1},"born":2008,"phone":null}');
  columns.info.add('{"seat":"=1+1","name":null,"phone":null}');
  columns.info.add(null);
  columns.addPaper('a', paper);
  columns.addPaper('b', other);
  t.equal(columns.hasPaper('a'), true);
  t.equal(columns.hasPaper('c'), false);
  const layout = columns.layout();
  t.strictSame(resultHeader(layout).slice(0, 6), [
    'studentId',
    'studentInfo.born',
    'studentInfo.name',
    'studentInfo.phone',
    'studentInfo.seat',
    'attemptNumber',
  ]);
  t.strictSame(resultHeader(layout).slice(-6), [
    '0:other:score',
    '0:other:answer',
    '1:essay:score',
    '1:essay:answer',
    '10:first:score',
    '10:first:answer',
  ]);

  const graded = sampleAttempt({
    status: 'GRADED',
    studentInfo: '{"name":"An","born":2008}',
    totalScore: 1,
    maxScore: 3,
    answers: { q0: sampleAnswer({ selected: ['a', 'b'], score: 1 }), q1: sampleAnswer({ text: 'Bài làm' }) },
    away: { count: 2, seconds: 3, since: null },
    voidedAt: new Date(0),
  });
  const cells = resultCells(graded, paper, layout);
  t.equal(cells.length, resultHeader(layout).length);
  t.strictSame(cells.slice(1, 5), [2008, 'An', null, null], 'a member that is null everywhere has its column');
  t.strictSame(cells.slice(-6), [null, null, null, 'Bài làm', 1, 'a|b']);
  const at = (name: string) => cells[resultHeader(layout).indexOf(name)];
  t.strictSame([at('scorePercent'), at('awayCount'), at('voided')], [100 / 3, 2, true]);

  const blank = resultCells(sampleAttempt({ status: 'GRADED', answers: {} }), paper, layout);
  t.strictSame(blank.slice(-4), [0, null, 0, null], 'a question without an answer has no points');
  const open = resultCells(sampleAttempt({ answers: { q0: sampleAnswer({ selected: ['a'] }) } }), paper, layout);
  t.strictSame(open.slice(-2), [null, 'a'], 'nor has any question a score before the grade');
});

t.test('names of descriptions beyond the last column share one, and no member is lost', async (t) => {
  const whole = `{${Array.from({ length: 2_000 }, (_, n) => `"${n.toString(36)}":1`).join()}}`;
  t.ok(whole.length < 16_384);
  const info = new InfoColumns();
  info.add(whole);
  t.strictSame([info.layout().names.size, info.layout().hasRest], [2_000, false], 'one description fills no file');

  for (let n = 0; n < 1_002; n += 1) info.add(`{"name-${n}":"=${n}"}`);
  const layout = info.layout();
  const header = infoHeader(layout);
  t.strictSame([header.length, header.at(-1)], [3_001, 'studentInfo']);
  const cells = (studentInfo: string) => infoCells(studentInfo, layout).filter((cell) => cell !== null);
  t.strictSame(cells('{"name-7":"An"}'), ['An']);
  t.strictSame(cells('{"name-7":"An","name-1000":"=1","name-1001":null,"deep":[]}'), [
    'An',
    '{"name-1000":"=1","name-1001":null}',
  ]);
});
