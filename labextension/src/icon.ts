import { LabIcon } from '@jupyterlab/ui-components';

/** A card with one fan: a GPU. Drawn in Lab's icon colour, so that it follows the theme. */
export const gpuIcon = new LabIcon({
  name: 'jupyter-gpushare:gpu',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 22 22">
  <g class="jp-icon3" fill="#616161">
    <path d="M2 4h1.8v14H2zM5 5h14a1.5 1.5 0 0 1 1.5 1.5v8A1.5 1.5 0 0 1 19 16H5zm1.6 1.6v7.8h12.3V6.6z"/>
    <path d="M12.7 7.6a2.9 2.9 0 1 0 0 5.8 2.9 2.9 0 0 0 0-5.8zm0 1.5a1.4 1.4 0 1 1 0 2.8 1.4 1.4 0 0 1 0-2.8zM7 17h7v1.6H7z"/>
  </g>
</svg>`
});
