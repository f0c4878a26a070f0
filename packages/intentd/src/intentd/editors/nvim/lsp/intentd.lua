-- How Neovim starts the language server; vim.lsp.config('intentd', {...}) changes it.
local marks = { ['.git'] = 1, ['pyproject.toml'] = 1, ['setup.cfg'] = 1, ['pytest.ini'] = 1, ['package.json'] = 1 }
return {
  cmd = { 'intentd', 'lsp' },
  init_options = { answers = true },
  on_exit = vim.schedule_wrap(function(code) return code ~= 0 and vim.lsp.enable('intentd', false) end), -- no next try
  handlers = { ['intent/answer'] = function(...) require('intentd').answer(...) end },
  root_dir = function(buf, start)
    local name = vim.api.nvim_buf_get_name(buf)
    if name == '' or name:match('^%a[%w+.-]+://') then return end
    start(vim.fs.root(buf, function(entry) return marks[entry] ~= nil end) or vim.fs.dirname(name))
  end,
}
