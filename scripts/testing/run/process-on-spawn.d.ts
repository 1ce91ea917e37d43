/** The part of process-on-spawn that the preload uses; the package has no types of its own. */
declare module 'process-on-spawn' {
  interface Spawn {
    env: Record<string, string | undefined>;
    readonly execPath: string;
    readonly args: readonly string[];
  }
  const processOnSpawn: { removeAllListeners(): void; addListener(listener: (spawn: Spawn) => void): void };
  export = processOnSpawn;
}
