import { freePort } from '#scripts/services/port.ts';
import { startChild } from './child.ts';
import type { Ground } from './ground.ts';

/** A model in a process of its own that answers after a fixed time; see http/fake-model.ts. */
export interface FakeModel {
  /** For AI_CLASSIFIER_BASE_URL; the wire's path is appended. */
  baseUrl: string;
  /** Environment of processes that ask this model. */
  env: NodeJS.ProcessEnv;
  close(): Promise<void>;
}

export async function openFakeModel(ground: Ground, answerMs: number): Promise<FakeModel> {
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), ANSWER_MS: String(answerMs) };
  const args = ['scripts/bench/http/fake-model.ts'];
  const readyWhen = 'fake model is ready';
  const child = await startChild({ name: 'fake-model', args, env, readyWhen, folder: ground.folder });
  const origin = `http://127.0.0.1:${port}`;
  return {
    baseUrl: `${origin}/v1`,
    env: {
      AI_CLASSIFIER_PROVIDER: 'local',
      AI_CLASSIFIER_MODEL: 'bench-model',
      AI_CLASSIFIER_BASE_URL: `${origin}/v1`,
      AI_CLASSIFIER_ALLOWED_BASE_URLS: origin,
    },
    close: () => child.stop(),
  };
}
