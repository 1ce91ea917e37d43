import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { subjectFaults } from './check-commits.ts';
import { documentPieces, faultsOf, longLines, sourcePieces } from './check-prose.ts';
import { findTestFiles, RESTS_ON_ENGINE, restsOnEngine } from './project-files.ts';
import { createTapReport } from './tap-report.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');

const RUN = `TAP version 14
1..5
# Subtest: api/a.test.ts
    # Subtest: passes
        ok 1 - fine
        1..1
    ok 1 - passes # time=900.1ms
    # Subtest: fails
        not ok 1 - should be equal
          ---
          compare: ===
          ...
        1..1
    not ok 2 - fails # time=5ms
    1..2
    # { total: 9, pass: 9 }
    # time=905ms
not ok 1 - api/a.test.ts # time=1200.5ms
  ---
  command: node
  exitCode: 1
  signal: null
  ...
# Subtest: api/b c.test.ts
    ok 1 - two
    1..1
ok 2 - api/b c.test.ts # time=3400ms
ok 3 - api/c.test.ts # time=20.5ms

# Subtest: api/empty.test.ts
    1..0 # no tests found
ok 4 - api/empty.test.ts # SKIP no tests found

# Subtest: api/windows.test.ts
    1..0 # for Windows
ok 5 - api/windows.test.ts # SKIP for Windows

# { total: 5, pass: 2, fail: 1, skip: 2 }
# time=4000ms`;

function reportOf(run: string) {
  const said: string[] = [];
  const report = createTapReport((line) => said.push(line));
  for (const line of run.split('\n')) report.read(line);
  return { report, said };
}

t.test('the tap report prints a line for each file and the failures of failed files', async (t) => {
  t.strictSame(reportOf(RUN).said, [
    'FAIL 1/5 api/a.test.ts (1.2 s)',
    '# Subtest: api/a.test.ts',
    '    # Subtest: passes',
    '    # Subtest: fails',
    '        not ok 1 - should be equal',
    '          ---',
    '          compare: ===',
    '          ...',
    '    not ok 2 - fails # time=5ms',
    '    # { total: 9, pass: 9 }',
    '  exitCode: 1',
    'ok   2/5 api/b c.test.ts (3.4 s)',
    'ok   3/5 api/c.test.ts (0.0 s)',
    'FAIL 4/5 api/empty.test.ts (no tests found)',
    '# Subtest: api/empty.test.ts',
    'ok   5/5 api/windows.test.ts (for Windows)',
  ]);
});

const THROWN = `1..1
# Subtest: api/a.test.ts
    # Subtest: inserts
        not ok 1 - unhandled error
          ---
          stack: |
            insert (insert.ts:5:19)
          type: MongoServerError
          errorLabelSet: !!set {}
          errorResponse:
            code: 11000
            errmsg: "E11000 duplicate key error collection: a.b index: c_1 dup key: { c: 1
              }"
            keyValue: &a1
              c: 1
          code: 11000
          keyValue: *a1
          source: |2
                 throw error;
            -----^
          ...
        1..1
    not ok 1 - inserts # time=5ms
    # Subtest: waits
        not ok 1 - unhandled error
          ---
          type: TimeoutError
          ...
        1..1
    not ok 2 - waits # time=5ms
    # Subtest: throws what is no error
        not ok 1 - unhandled error`;

t.test('the tap report states the error of a test whose message tap omits', async (t) => {
  // The process of the last test died, so that its details are missing.
  const { said } = reportOf(`${THROWN}\nnot ok 1 - api/a.test.ts # time=12ms`);
  const results = said.flatMap((line, index) => (/ unhandled error$/.test(line) ? said[index + 1] : []));
  t.strictSame(results, [
    '          # MongoServerError 11000: E11000 duplicate key error collection: a.b index: c_1 dup key: { c: 1 }',
    '          # TimeoutError: tap omits its message',
    '          # Error: tap omits its message',
  ]);
  t.ok(said.includes('            insert (insert.ts:5:19)'), 'the details follow');
});

t.test('the tap report returns the totals of the run, not of a file', async (t) => {
  t.strictSame(reportOf(RUN).report.totals(), { passed: 2, failed: 2 });
  t.strictSame(reportOf('# { total: 4, pass: 4 }').report.totals(), { passed: 4, failed: 0 });
});

t.test('the tap report counts only the failed files of a run without a summary', async (t) => {
  const cut = RUN.split('\n').slice(0, -3).join('\n');
  t.strictSame(reportOf(cut).report.totals(), { passed: 0, failed: 2 });
});

t.test('the tap report lists the slow files, longest first', async (t) => {
  const names = reportOf(RUN)
    .report.slowest(1_000)
    .map(({ file }) => file);
  t.strictSame(names, ['api/b c.test.ts', 'api/a.test.ts']);
});

t.test('accepts imperatives, with or without an area, and subjects that git writes', async (t) => {
  for (const subject of [
    'Add a probe',
    'mongo: mend a stand-in where its workaround cost MongoDB',
    "operator's page: pass --yes through",
    'Ring the worker after the commit',
    'Merge the probe',
    'fixup! The probe',
  ]) {
    t.strictSame(subjectFaults(`${subject}\n\nThe body is free.`), [], subject);
  }
});

t.test('refuses other forms of a verb, other words, and subjects that are too long', async (t) => {
  for (const subject of [
    'Added a probe',
    'Adds a probe',
    'docs: adding a page',
    'The probe is asked first',
    'That a settlement comes late is proven',
    'tests: two rigs',
    '',
    '42 probes',
  ]) {
    t.match(subjectFaults(subject), [/begin with a verb/], subject);
  }
  t.match(subjectFaults(`Add ${'x'.repeat(69)}`), [/73 characters/]);
  t.strictSame(subjectFaults(`Add ${'x'.repeat(68)}`), []);
  t.match(subjectFaults('Add a probe.'), [/full stop/]);
});

/** Thirty words. */
const LONGEST = `Word${' word'.repeat(29)}`;
const SENTENCES: readonly [string, RegExp[]][] = [
  ['Returns the command, or null if it does not exist.', []],
  ['What is counted of the running round.', [/opens with "What"/]],
  ['Of two clocks, one may be ahead.', [/opens with "Of"/]],
  ['Counts what remains of the round.', []],
  ['The row that nobody runs.', [/"nobody": name the actor/]],
  ['A session of another account is none.', [/"is none"/]],
  ['The worker asks the front door and looks again.', []],
  ['The attempt is given back while Redis is away.', [/"given back"/]],
  ['Hands in what remains.', [/"Hands in"/]],
  [`${LONGEST}. ${LONGEST}.`, []],
  [`${LONGEST} word.`, [/31 words/]],
  ['A stand-in, e.g. the standard one, is given a restart to understand.', []],
];

t.test('a comment is held against the style sheet', async (t) => {
  for (const [text, faults] of SENTENCES) {
    const found = faultsOf({ kind: 'comment', text });
    t.equal(found.length, faults.length, text);
    t.match(found, faults, text);
  }
});

t.test('a cell or heading of a document may open with "What"', async (t) => {
  t.strictSame(faultsOf({ kind: 'document', text: 'What' }), []);
});

t.test('names the lines of a document that are too long, outside of fenced code and without an address', async (t) => {
  const long = 'x'.repeat(161);
  t.strictSame(longLines(['fine', long, '```', long, '```', `https://example.org ${long}`, long].join('\n')), [2, 7]);
});

const SOURCE = `// One sentence
// on two lines, with \`code\`.

/**
 * First paragraph
 * continued. @throws Error if it
 * fails
 *
 * - an item
 */
export function f() {
  // biome-ignore lint: for a tool
  const notAComment = '// text';
  context.log.warn({ id }, \`lost \${id}\`);
  list.warn('not a log');
  t.test('keeps the order', () => {});
  return { summary: 'Read an attempt', other: 'unread' };
}
`;

t.test('reads comments, test titles, log messages and messages of a source', async (t) => {
  t.strictSame(
    sourcePieces('x.ts', SOURCE).map(({ kind, line, text }) => [kind, line, text]),
    [
      ['comment', 1, 'One sentence on two lines, with CODE.'],
      ['comment', 5, 'First paragraph continued.'],
      ['comment', 6, 'Error if it fails'],
      ['comment', 9, 'an item'],
      ['log message', 14, 'lost CODE'],
      ['test title', 16, 'keeps the order'],
      ['message', 17, 'Read an attempt'],
    ],
  );
  t.throws(() => sourcePieces('x.ts', 'const = 1'), { message: /^x.ts: / });
});

t.test('reads headings, paragraphs, items and cells of a document', async (t) => {
  const document =
    '# A head\n\nA `code` in\na paragraph.\n\n- an item\n\n| a | b |\n| - | - |\n| c | d |\n\n```\ncode\n```\n';
  t.strictSame(
    documentPieces(document).map(({ line, text }) => [line, text]),
    [
      [1, 'A head'],
      [3, 'A CODE in a paragraph.'],
      [6, 'an item'],
      [8, 'a'],
      [8, 'b'],
      [10, 'c'],
      [10, 'd'],
    ],
  );
});

t.test('each rule for the tests that every engine repeats names test files', async (t) => {
  const repeated = findTestFiles(ROOT, []).filter(restsOnEngine);
  for (const rule of RESTS_ON_ENGINE)
    t.ok(
      repeated.some((file) => rule.test(file)),
      String(rule),
    );
  t.ok(repeated.includes('scripts/testing/faults/workers.e2e.test.ts'));
});

t.test('a test file awaits nothing at its top level after its first test', async (t) => {
  // tap ends a file as soon as no test of it is left, also while the file awaits something before its next test.
  for (const file of findTestFiles(ROOT, [])) {
    const source = readFileSync(path.join(ROOT, file), 'utf8');
    const [, ...afterTests] = source.split(/^t\.test\(/m);
    const late = /^(?:(?:const|let) .*= )?await (?!t\.test\().*/m.exec(afterTests.join(''));
    t.equal(late?.[0], undefined, file);
  }
});
