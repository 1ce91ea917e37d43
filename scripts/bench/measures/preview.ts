import { alternate, timed } from '#scripts/bench/alternate.ts';
import type { BenchContext, Measure } from '#scripts/bench/context.ts';
import type { HttpClient } from '#scripts/bench/http-client.ts';
import { LITELLM, LITELLM_HEADERS, openFakeModel, openLiteLlm } from '#scripts/bench/model-servers.ts';
import { figuresOf, ratesOf } from '#scripts/bench/row.ts';
import { openStage } from '#scripts/bench/stage.ts';
import { explainTask } from '#shared/classifier/tasks/explain-and-grade.ts';
import { promptOf } from '#shared/classifier/tasks/prompt.ts';

const AT_ONCE = 8;
/** A teacher for each connection: one teacher has at most four previews in flight. */
const tutor = (n: number) => ({
  'x-actor-id': `teacher-${n}`,
  'x-actor-role': 'TEACHER',
  'x-organization-id': 'org-1',
});
const QUESTION = {
  content: 'Tính tích phân của x từ 0 đến 1.',
  answerKey: { correctOptionIds: ['a'] },
  language: 'vi',
};

/** Measures the overhead between a caller and a model that answers at once: our preview against the same prompt through LiteLLM's proxy. */
export const measurePreview: Measure = async (context) => {
  const model = await openFakeModel(context, 0);
  const stage = await openStage(context, ['web'], model.env);
  const proxy = await openLiteLlm(context, model.baseUrl);
  const [ours, theirs] = [await stage.connect(), await proxy.connect()];
  try {
    const alone = await alternate({
      ours: () => timed(() => explain(ours)),
      reference: () => timed(() => complete(theirs)),
      rounds: context.quick ? 30 : 300,
      warmUp: context.quick ? 10 : 50,
      step: (done, of) => context.progress.step(done, 2 * of),
    });
    const crowd = await alternate({
      ours: () => rateOf(context, () => stage.connect(), explain),
      reference: () => rateOf(context, () => proxy.connect(), complete),
      rounds: context.quick ? 1 : 5,
      warmUp: 1,
      step: (done, of) => context.progress.step(of + done, 2 * of),
    });
    const against = `${LITELLM.replace('[proxy]==', ' ')}, same model`;
    return [
      {
        name: 'an explanation preview',
        unit: 'ms',
        ours: figuresOf(alone.ours),
        reference: figuresOf(alone.reference),
        against,
        aim: { side: 'most', ratio: 1 },
        notes: ['validated answer and usage event included; the proxy passes the same prompt through'],
      },
      {
        name: `previews, ${AT_ONCE} at once`,
        unit: '/s',
        ours: ratesOf(crowd.ours),
        reference: ratesOf(crowd.reference),
        against,
        aim: { side: 'least', ratio: 2 },
        notes: [],
      },
    ];
  } finally {
    ours.close();
    theirs.close();
    await proxy.close();
    await stage.close();
    await model.close();
  }
};

async function explain(client: HttpClient, place = 0): Promise<void> {
  const reply = await client.request('POST', '/v1/ai/explanation/preview', tutor(place), JSON.stringify(QUESTION));
  if (reply.status !== 200) throw new Error(`preview: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
}

const PROMPT = promptOf(explainTask(QUESTION as never), { withSchema: false, repair: null });
const COMPLETION = JSON.stringify({
  model: 'bench-model',
  messages: [
    { role: 'system', content: PROMPT.system },
    { role: 'user', content: PROMPT.user },
  ],
});

async function complete(client: HttpClient): Promise<void> {
  const reply = await client.request('POST', '/v1/chat/completions', LITELLM_HEADERS, COMPLETION);
  if (reply.status !== 200) throw new Error(`LiteLLM: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
}

/** Returns the requests per second over AT_ONCE connections. */
async function rateOf(
  context: BenchContext,
  connect: () => Promise<HttpClient>,
  ask: (client: HttpClient, place: number) => Promise<void>,
): Promise<number> {
  const each = context.quick ? 20 : 60;
  const clients = await Promise.all(Array.from({ length: AT_ONCE }, connect));
  const ms = await timed(() =>
    Promise.all(
      clients.map(async (client, place) => {
        for (let n = 0; n < each; n++) await ask(client, place);
      }),
    ),
  );
  for (const client of clients) client.close();
  return (AT_ONCE * each) / (ms / 1_000);
}
