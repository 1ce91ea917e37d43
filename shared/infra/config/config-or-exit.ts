import { type Config, ConfigError, readConfig } from './config.ts';

/** EX_CONFIG of sysexits.h: whoever restarts what dies can tell that a restart will not help. */
const EXIT_CODE = 78;

/** The configuration of a process that has nothing to do without one: its faults go to stderr, without the stack of a bug. */
export function configOrExit(env: NodeJS.ProcessEnv): Config {
  try {
    return readConfig(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    console.error(error.message);
    process.exit(EXIT_CODE);
  }
}
