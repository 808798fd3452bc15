import { ServerConnection } from '@jupyterlab/services';

/** One connection as the browser's side sees it; the test plays the server. */
export class FakeSocket {
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: (() => void) | null = null;
  isClosed = false;

  constructor(readonly url: string) {}

  send(frame: unknown): void {
    this.onmessage?.({ data: typeof frame === 'string' ? frame : JSON.stringify(frame) });
  }

  /** The server, or a proxy between, ends the connection. */
  drop(): void {
    this.isClosed = true;
    this.onclose?.();
  }

  close(): void {
    this.isClosed = true;
  }
}

type Answer = { status: number; body: unknown } | 'unreachable';

/** A server behind a base URL that answers as the test says, and remembers what it was asked. */
export class FakeServer {
  readonly sockets: FakeSocket[] = [];
  readonly asked: { url: string; method: string; body: unknown }[] = [];
  readonly answers = new Map<string, Answer>();
  readonly settings: ServerConnection.ISettings;

  constructor() {
    const sockets = this.sockets;
    this.settings = ServerConnection.makeSettings({
      baseUrl: 'http://hub.test/user/ada/pre/',
      wsUrl: 'ws://hub.test/user/ada/pre/',
      token: 'a&b',
      appendToken: true,
      fetch: (input, init) => this.answer(input as Request, init),
      WebSocket: class extends FakeSocket {
        constructor(url: string) {
          super(url);
          sockets.push(this);
        }
      } as unknown as typeof WebSocket
    });
  }

  get socket(): FakeSocket {
    const last = this.sockets[this.sockets.length - 1];
    if (!last) {
      throw new Error('nobody has connected');
    }
    return last;
  }

  askedFor(endPoint: string): number {
    return this.asked.filter(({ url }) => new URL(url).pathname.endsWith(`/${endPoint}`)).length;
  }

  private async answer(request: Request, init: RequestInit | undefined): Promise<Response> {
    const { url, method } = request;
    const sent = typeof init?.body === 'string' ? init.body : await request.text();
    this.asked.push({ url, method, body: sent === '' ? null : (JSON.parse(sent) as unknown) });
    const endPoint = new URL(url).pathname.split('/gpushare/api/v1/')[1] ?? '';
    const answer = this.answers.get(endPoint) ?? { status: 404, body: { message: 'Not Found' } };
    if (answer === 'unreachable') {
      throw new TypeError('Failed to fetch');
    }
    const body = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body);
    return new Response(body, { status: answer.status });
  }
}

/** A page whose visibility the test sets. */
export class FakePage extends EventTarget {
  visibilityState: DocumentVisibilityState = 'visible';

  show(state: DocumentVisibilityState): void {
    this.visibilityState = state;
    this.dispatchEvent(new Event('visibilitychange'));
  }
}
