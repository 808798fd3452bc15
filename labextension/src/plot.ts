import { IDisposable } from '@lumino/disposable';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

import { History, IMoment, IParkedSpan } from './history';

const HEIGHT = 72;
/** What stands in a shaded time stands on plain ground. */
const WORD_HEIGHT = 19;

const GB = 1e9;

/** What stands in the times in which the share was handed back, or lent to training. */
export interface IShadeWords {
  handedBack: string;
  lent: string;
}

/** The chart itself, in a chunk of its own together with uPlot. Follows the width of its host and the theme. */
export class Plot implements IDisposable {
  /** *onPoint* gets the moment that the pointer is over, and null when it leaves; *words* stand in what is shaded. */
  constructor(
    private readonly _host: HTMLElement,
    private readonly _words: IShadeWords,
    private readonly _onPoint: (moment: IMoment | null) => void
  ) {
    this._resizes = new ResizeObserver(() => {
      this._plot.setSize({ width: this._width, height: HEIGHT });
    });
    this._themes = new MutationObserver(() => {
      this._plot.destroy();
      this._plot = this._make();
      this._redraw();
    });
    this._plot = this._make();
    this._resizes.observe(_host);
    this._themes.observe(document.body, { attributeFilter: ['data-jp-theme-name'] });
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Draw *history*, up to *limit* bytes. */
  draw(history: History, limit: number | null): void {
    if (this._isDisposed) {
      return;
    }
    const moments = history.withGaps();
    this._moments = moments;
    this._parked = history.parked;
    this._span = history.spanS;
    const inGb = moments.map(({ memory }) => (memory === null ? null : memory / GB));
    this._now = moments[moments.length - 1]?.at ?? Date.now() / 1000;
    this._top = inGb.reduce<number>((top, value) => Math.max(top, value ?? 0), Math.max(limit ?? 0, 1) / GB);
    this._data = [moments.map(({ at }) => at), inGb, moments.map(({ utilisation }) => utilisation)];
    this._redraw();
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._resizes.disconnect();
      this._themes.disconnect();
      this._plot.destroy();
    }
  }

  private _redraw(): void {
    this._plot.setData(this._data);
  }

  private get _width(): number {
    return Math.max(60, this._host.clientWidth);
  }

  private _make(): uPlot {
    return new uPlot(
      {
        width: this._width,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        hooks: { setCursor: [this._point], drawClear: [this._shade] },
        padding: [4, 0, 0, 0],
        scales: {
          x: { time: true, range: () => [this._now - this._span, this._now] },
          memory: { range: () => [0, this._top] },
          compute: { range: [0, 100] }
        },
        axes: [{ show: false }, { scale: 'memory', show: false }, { scale: 'compute', show: false }],
        series: [
          {},
          {
            scale: 'memory',
            stroke: this._colour('mine'),
            fill: this._colour('area'),
            width: 1.5,
            points: { show: false }
          },
          {
            scale: 'compute',
            stroke: this._colour('compute'),
            width: 1,
            dash: [3, 2],
            points: { show: false }
          }
        ]
      },
      this._data,
      this._host
    );
  }

  /** The moment under the pointer, told once: new data move the cursor without any pointer. */
  private readonly _point = ({ cursor }: uPlot): void => {
    const pointed = this._moments[cursor.idx ?? -1] ?? null;
    if (pointed !== this._pointed) {
      this._pointed = pointed;
      this._onPoint(pointed);
    }
  };

  /** The times in which the share was handed back, behind the lines, with a word where there is room for it. */
  private readonly _shade = (plot: uPlot): void => {
    const { ctx, bbox } = plot;
    const edge = (at: number): number =>
      Math.min(bbox.left + bbox.width, Math.max(bbox.left, plot.valToPos(at, 'x', true)));
    ctx.save();
    ctx.font = `${11 * devicePixelRatio}px ${getComputedStyle(this._host).fontFamily}`;
    ctx.textAlign = 'center';
    ctx.textBaseline = 'top';
    this._parked.forEach(({ begin, end, isLent }) => {
      const [left, right] = [edge(begin), edge(end)];
      const word = isLent ? this._words.lent : this._words.handedBack;
      ctx.fillStyle = this._colour('lent');
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      if (isLent) {
        const top = bbox.top + WORD_HEIGHT * devicePixelRatio;
        hatch(ctx, { left, right, top, height: bbox.top + bbox.height - top });
      }
      if (right - left > ctx.measureText(word).width + 8 * devicePixelRatio) {
        ctx.fillStyle = this._colour('words');
        ctx.fillText(word, (left + right) / 2, bbox.top + 4 * devicePixelRatio);
      }
    });
    ctx.restore();
  };

  /** A colour of the theme as a canvas takes it: it knows nothing of CSS variables. */
  private _colour(name: string): string {
    const probe = document.createElement('i');
    probe.className = 'jp-gpushare-Chart-probe';
    probe.dataset.colour = name;
    this._host.appendChild(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  }

  private _plot: uPlot;
  private _data: uPlot.AlignedData = [[], [], []];
  private _moments: readonly IMoment[] = [];
  private _parked: readonly IParkedSpan[] = [];
  private _pointed: IMoment | null = null;
  private _now = Date.now() / 1000;
  private _span = 10;
  private _top = 1;
  private _isDisposed = false;
  private readonly _resizes: ResizeObserver;
  private readonly _themes: MutationObserver;
}

interface IArea {
  left: number;
  right: number;
  top: number;
  height: number;
}

/** Slanted lines over *area*, as the bars have them for what is lent: in the fill's colour, which is pale. */
function hatch(ctx: CanvasRenderingContext2D, { left, right, top, height }: IArea): void {
  const step = 9 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, right - left, height);
  ctx.clip();
  ctx.beginPath();
  for (let x = left - height; x < right; x += step) {
    ctx.moveTo(x, top + height);
    ctx.lineTo(x + height, top);
  }
  ctx.strokeStyle = ctx.fillStyle;
  ctx.lineWidth = 3 * devicePixelRatio;
  ctx.setLineDash([]);
  ctx.stroke();
  ctx.restore();
}
