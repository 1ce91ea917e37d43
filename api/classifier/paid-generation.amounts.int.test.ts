import t from 'tap';
import { mockAnswer } from '#shared/classifier/mock.ts';
import { openJitter } from '#testing/chance.ts';
import { doorWithWorker, paidDoor, preview } from '#testing/doors/paid-door.ts';
import { askedModels, settingsFor } from '#testing/models/asked-models.ts';
import { openGenerationServer } from '#testing/models/generation-server.ts';

const chance = openJitter();
t.comment(`RACE_SEED=${chance.seed}`);
const CASES = 12;

for (const [settler, open] of [
  ['front door', paidDoor],
  ['worker', doorWithWorker],
] as const) {
  t.test(
    `the ${settler} charges three credits for each question that is returned, for an equal one nothing, and the tokens that were counted`,
    async (t) => {
      const { door, owners, models } = await open(t);
      for (let n = 0; n < CASES; n++) {
        const asked = 1 + Math.floor(chance.next() * 20);
        const written = 1 + Math.floor(chance.next() * 25);
        const isCounted = chance.next() < 0.5;
        const usage = { inputTokens: isCounted ? 10 * n : null, outputTokens: 7 };
        models.script = async (task) => {
          const [one] = (mockAnswer(task) as { questions: object[] }).questions;
          const questions = Array.from({ length: written }, (_, at) => ({ ...one, content: `Câu ${at}` }));
          return { usage, json: { questions: questions.toSpliced(1, 0, { ...one, content: ' câu 0 ' }) } };
        };
        const made = await preview(door, { topic: `topic ${n}`, count: asked });
        const shown = Math.min(asked, written);
        const [credits, tokens] = [3 * shown, isCounted ? 10 * n + 7 : 1_000 * asked];
        const about = `${written} of ${asked}`;
        t.equal(made.questions.length, shown, about);
        t.match(made, { settlement: { credits, tokens } }, about);
        t.match(
          owners.ledger.debits.get(`ai-generation:${made.previewId}:debit`),
          { amount: credits, times: 1 },
          about,
        );
        const items = ['credits_monthly', 'credits_weekly', 'credits_hourly'].map((counter) => ({
          counter,
          amount: credits,
        }));
        t.strictSame(
          owners.ledger.consumed.get(`ai-generation:${made.previewId}:usage`),
          { items: [...items, { counter: 'tokens_monthly', amount: tokens }], times: 1 },
          about,
        );
      }
    },
  );
}

t.test('the usage service counts the tokens of every call of a generation, and the reply is their sum', async (t) => {
  const server = await openGenerationServer(t);
  const { models, events } = askedModels(t, settingsFor('local', server.env));
  const { door, owners } = await paidDoor(t, { models });
  server.next = ['{"questions": []}'];
  const made = await preview(door, { questionType: 'NUMERIC', count: 2 });
  t.match(made, { usage: { inputTokens: 200, outputTokens: 400 }, settlement: { credits: 6, tokens: 600 } });
  t.match(owners.ledger.consumed.get(`ai-generation:${made.previewId}:usage`), {
    items: [{ amount: 6 }, { amount: 6 }, { amount: 6 }, { counter: 'tokens_monthly', amount: 600 }],
    times: 1,
  });
  t.match(events, [
    { outcome: 'failure', inputTokens: 100, outputTokens: 200 },
    { outcome: 'success', inputTokens: 100, outputTokens: 200 },
  ]);
});
