import { IDisposable } from '@lumino/disposable';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

import { timeOfDay } from './format';
import { History } from './history';

const HEIGHT = 92;
const GB = 1e9;

/** The chart itself, in a chunk of its own together with uPlot. Follows the width of its host and the theme. */
export class Plot implements IDisposable {
  constructor(private readonly _host: HTMLElement) {
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
    const axis = {
      stroke: this._colour('words'),
      grid: { show: false },
      ticks: { show: false },
      font: this._font()
    };
    return new uPlot(
      {
        width: this._width,
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        padding: [4, 0, 0, 0],
        scales: {
          x: { time: true, range: () => [this._now - this._span, this._now] },
          memory: { range: () => [0, this._top] },
          compute: { range: [0, 100] }
        },
        axes: [
          { ...axis, size: 18, gap: 4, values: (_, moments) => moments.map(timeOfDay) },
          { ...axis, scale: 'memory', show: false },
          { ...axis, scale: 'compute', show: false }
        ],
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

  private _font(): string {
    return `10px ${getComputedStyle(this._host).fontFamily}`;
  }

  private _plot: uPlot;
  private _data: uPlot.AlignedData = [[], [], []];
  private _now = Date.now() / 1000;
  private _span = 300;
  private _top = 1;
  private _isDisposed = false;
  private readonly _resizes: ResizeObserver;
  private readonly _themes: MutationObserver;
}
