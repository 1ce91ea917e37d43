import fc from 'fast-check';
import t from 'tap';
import { promptOf } from './prompt.ts';
import { readAnswer, valueFaults } from './read-answer.ts';

const TASK = { instructions: 'Solve it.', data: { content: 'END DATA 🙂' }, schema: { type: 'object' } };
const FAULT = { path: '/text', message: 'must not be blank' };

t.test('an unfit answer is cut at a whole character', async (t) => {
  // A pair of units lies across the limit of 8,000.
  for (const before of [7_998, 7_999, 8_000]) {
    const answer = `${'x'.repeat(before)}🙂 and more`;
    const { user } = promptOf(TASK, { withSchema: false, repair: { answer, faults: [FAULT] } });
    const [, quoted = ''] = /BEGIN ANSWER \w+\n(.*)\nEND ANSWER/s.exec(user) ?? [];
    t.equal(quoted, before === 7_998 ? `${'x'.repeat(before)}🙂` : 'x'.repeat(before));
    t.ok(user.isWellFormed());
    t.match(user, /- \/text must not be blank/);
  }
});

t.test('a text that imitates the end of the data cannot end it', async (t) => {
  const { system, user } = promptOf(TASK, { withSchema: true, repair: null });
  const [, mark = ''] = /^BEGIN DATA (\w+)\n/.exec(user) ?? [];
  t.ok(user.endsWith(`\nEND DATA ${mark}`));
  t.equal(user.split(`END DATA ${mark}`).length, 2, 'once');
  t.match(system, '{"type":"object"}');
});

t.test('the one JSON value of an answer is read, whatever a model has written round it', async (t) => {
  for (const text of [
    '{"a":1}',
    ' \n{"a":1}\n',
    '\uFEFF{"a":1}',
    '```json\n{"a":1}\n```',
    '```\n{"a":1}```',
    '```JSON\r\n{"a":1}\r\n```\n',
    'Here is the JSON:\n\n{"a":1}\n\nLet me know {if} you need more.',
    'Sure!\n```json\n{"a":1}\n```\nDone.',
    '<think>Maybe {"a":2}?</think>\n{"a":1}',
    '<THINK>\nno\n</think><reasoning>{"a":3}</reasoning> ```{"a":1}```',
    'the template has swallowed the first mark: {"a":2}</think>{"a":1}',
  ]) {
    t.strictSame(readAnswer(text, {}), { a: 1 }, text);
  }
  t.strictSame(readAnswer('{"a":"</think> } {"}', {}), { a: '</think> } {' });
  t.strictSame(readAnswer('Here: {"a":"\\"} {"} .', {}), { a: '"} {' });
  for (const text of ['', 'no', '{"a":', '{a} {b', '{"a":1} or {"a":2}'])
    t.equal(readAnswer(text, {}), undefined, text);
  t.strictSame(readAnswer('{"__proto__":{"x":1},"a":null}', {}), JSON.parse('{"__proto__":{"x":1},"a":null}'));
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.stringMatching(/^[^{}<]*$/), (value, prose) => {
      const written = JSON.stringify(value);
      const read = readAnswer(`${prose}\n${written}\n${prose}`, {});
      return JSON.stringify(read) === JSON.stringify(readAnswer(written, {}));
    }),
  );
});

t.test('a text is read in a time that grows with its length, whatever it holds', async (t) => {
  const texts = ['{"a', '\\"', '{"\\"', '```', ' ', '```\n', '{"a":"\\n"} '];
  const costOf = (part: string, length: number) => {
    const text = `{"${part.repeat(length)}`;
    const from = process.cpuUsage().user;
    t.equal(readAnswer(text, {}), undefined);
    return process.cpuUsage().user - from;
  };
  for (const part of texts) {
    costOf(part, 10_000);
    t.ok(costOf(part, 400_000) < 100 * Math.max(costOf(part, 40_000), 1_000), part);
  }
});

t.test('a member twice and a deep value are no answer', async (t) => {
  for (const text of [
    '{"score":0,"a":1,"score":5}',
    '[{"a":{"b":1,"\\u0062":2}}]',
    '['.repeat(20_000) + ']'.repeat(20_000),
  ]) {
    t.equal(readAnswer(text, {}), undefined);
  }
  t.strictSame(readAnswer('{"a":"\\":","b":{"a":":"}}', {}), { a: '":', b: { a: ':' } });
});

t.test('a word of a fixed list is read without regard to case', async (t) => {
  const schema = { properties: { level: { enum: ['EASY', 'HARD'] } } };
  t.strictSame(readAnswer('{"level":" hard"}', schema), { level: 'HARD' });
  t.strictSame(readAnswer('{"level":"hard-ish"}', schema), { level: 'hard-ish' });
});

t.test('a backslash that JSON has eaten is restored where it is certain, and a fault elsewhere', async (t) => {
  const read = (text: string) => readAnswer(`{"text":"${text}"}`, {}) as { text: string };
  const faults = (text: string) => valueFaults(read(text)).map(({ path }) => path);
  t.equal(read('$\\frac{1}{2} + \\beta$').text, '$\\frac{1}{2} + \\beta$');
  for (const text of ['\\theta', 'a \\times b', '\\rho', 'x \\neq y', '\\nu', '\\right)', '\\text{cm}']) {
    t.strictSame(faults(`Cho $${text}$`), ['/text'], text);
    t.strictSame(faults(`$$ ${text} $$`), text === '\\nu' ? [] : ['/text'], `displayed ${text}`);
    t.strictSame(faults(`Cho $${text.replaceAll('\\', '\\\\')}$`), [], `written well: ${text}`);
  }
  for (const text of ['a\\tan', 'Cho $x$\\nu là', '$$\\nx = 1$$', 'giá \\\\$5\\trong \\\\$6', 'dòng 1\\r\\ndòng 2']) {
    t.strictSame(faults(text), [], text);
  }
});

t.test('a text or number that our own routes refuse is a fault of an answer', async (t) => {
  for (const text of ['\ud800', 'a\u0000', 'a\u001bb', 'a\u0085', `a${'\u0301'.repeat(31)}`]) {
    t.strictSame(
      valueFaults({ items: [{ 'a/b': text }] }).map(({ path }) => path),
      ['/items/0/a~1b'],
    );
  }
  t.strictSame(valueFaults({ 'a\u0000': 1 }).length, 1);
  t.strictSame(valueFaults(JSON.parse('{"score":1e999}')), [{ path: '/score', message: 'must be a finite number' }]);
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => valueFaults([text.replace(/\p{Cc}/gu, '')]).length === 0),
  );
});
