import t from 'tap';
import { layout } from './layout.ts';

t.test('a reply has one member a line, and below that objects and lists on one line where they fit', async (t) => {
  const long = 'x'.repeat(60);
  const value = { a: { id: 'q1', list: [1, null, 'ă'] }, b: [], c: {}, d: [{ x: long }, { y: long }] };
  const text = layout(value);
  t.equal(
    text,
    `{
  "a": { "id": "q1", "list": [1, null, "ă"] },
  "b": [],
  "c": {},
  "d": [
    { "x": "${long}" },
    { "y": "${long}" }
  ]
}`,
  );
  t.strictSame(JSON.parse(text), value);
  t.equal(layout([]), '[]');
  t.equal(layout('text'), '"text"');
});
