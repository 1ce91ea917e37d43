import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { toolsCache } from '#scripts/services/cache.ts';
import { freePort } from '#scripts/services/port.ts';
import { findPython, installPythonPackage } from '#scripts/services/python-tools.ts';
import { pythonEnvironment } from '#scripts/services/tool-environment.ts';
import { startChild } from './child.ts';
import type { BenchContext } from './context.ts';
import { type HttpClient, openHttpClient } from './http-client.ts';

/** A model in its own process that answers after a fixed time; see servers/fake-model.ts. */
export interface FakeModel {
  /** Value for AI_CLASSIFIER_BASE_URL, without the path of the protocol. */
  baseUrl: string;
  /** Environment of processes that call this model. */
  env: NodeJS.ProcessEnv;
  close(): Promise<void>;
}

/** Starts a model that answers each call after `answerMs` milliseconds. */
export async function openFakeModel(context: BenchContext, answerMs: number): Promise<FakeModel> {
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), ANSWER_MS: String(answerMs) };
  const args = ['scripts/bench/servers/fake-model.ts'];
  const readyWhen = 'fake model is ready';
  const child = await startChild({ name: 'fake-model', args, env, readyWhen, folder: context.folder });
  const origin = `http://127.0.0.1:${port}`;
  return {
    baseUrl: `${origin}/v1`,
    env: {
      AI_CLASSIFIER_PROVIDER: 'local',
      AI_CLASSIFIER_MODEL: 'bench-model',
      AI_CLASSIFIER_BASE_URL: `${origin}/v1`,
    },
    close: () => child.stop(),
  };
}

/** LiteLLM's proxy in front of a model, in its own process. */
export interface LiteLlm {
  connect(): Promise<HttpClient>;
  close(): Promise<void>;
}

export const LITELLM = 'litellm[proxy]==1.106.2';
const KEY = 'sk-bench';
export const LITELLM_HEADERS = { authorization: `Bearer ${KEY}` };
const TIMEOUT_MS = 120_000;

/**
 * Starts the proxy with one worker and without a database, as the beginning of its documentation does. The first call installs it, half a
 * gigabyte.
 */
export async function openLiteLlm(context: BenchContext, baseUrl: string): Promise<LiteLlm> {
  const python = findPython({ min: 10, max: 13 }, process.env.PATH);
  if (python === undefined) throw new Error('LiteLLM needs a Python from 3.10 to 3.13');
  const deps = { say: context.progress.line, env: process.env, cache: toolsCache() };
  const folder = await installPythonPackage(deps, python, LITELLM);
  const port = await freePort();
  const config = path.join(context.folder, 'litellm.yaml');
  writeFileSync(
    config,
    [
      'model_list:',
      '  - model_name: bench-model',
      `    litellm_params: { model: openai/bench-model, api_base: "${baseUrl}", api_key: none }`,
      `general_settings: { master_key: "${KEY}" }`,
      'litellm_settings: { telemetry: false }',
      '',
    ].join('\n'),
  );
  const run = `from litellm import run_server; run_server(['--config', '${config}', '--host', '127.0.0.1', '--port', '${port}'], standalone_mode=False)`;
  const child = spawn(python.file, ['-c', run], {
    env: { ...pythonEnvironment(process.env, path.join(folder, 'site')), LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
    stdio: 'ignore',
  });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  async function close(): Promise<void> {
    process.off('exit', kill);
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    kill();
    await gone;
  }
  const giveUpAt = performance.now() + TIMEOUT_MS;
  while (!(await isAlive(port))) {
    if (child.exitCode !== null || performance.now() > giveUpAt) {
      await close();
      throw new Error('LiteLLM did not become ready');
    }
    await delay(250);
  }
  return { connect: () => openHttpClient(port), close };
}

async function isAlive(port: number): Promise<boolean> {
  const reply = await fetch(`http://127.0.0.1:${port}/health/liveliness`).catch(() => null);
  await reply?.body?.cancel();
  return reply?.ok === true;
}
