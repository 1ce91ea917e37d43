/** Fields that are the same in every log line of a process: the prefix names the process. */
const HIDDEN = 'name,pid,hostname';

/**
 * Returns a function that turns a line of JSON from the log of a process into readable text, with one line for each further field of an
 * error. Other lines stay as they are. In production it changes nothing, because a collector reads the lines.
 */
export async function readableLines(env: NodeJS.ProcessEnv, colour: boolean): Promise<(line: string) => string> {
  if (env.NODE_ENV === 'production') return (line) => line;
  // A package for development, which a production image lacks.
  const { prettyFactory } = await import('pino-pretty');
  const pretty = prettyFactory({
    colorize: colour,
    ignore: HIDDEN,
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
  });
  // Other programs print JSON too; only a line of our log has a level.
  return (line) => (line.startsWith('{"level":') ? pretty(line).trimEnd() : line);
}
